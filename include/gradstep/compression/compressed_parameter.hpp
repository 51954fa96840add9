#pragma once
#include <gradstep/base/fixed_string.hpp>
#include <gradstep/compression/detail/compressed_step.hpp>
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/compression/dgc_step.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/rows/row_progress.hpp>
#include <gradstep/saved/parameter.hpp>
#include <gradstep/saved/saved_state.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A `parameter` of `dgc_momentum` whose step has two halves. `compress` makes the message of this
/// trainer, and `apply` moves the values by the messages of all trainers.
///
///     gs::compressed_parameter weights{optimizer, initial};
///     gs::sparse_message const mine = weights.compress(gradient);     // the clock moves
///     std::vector<gs::sparse_message> const all = exchange_all(mine); // in the order of the ranks
///     weights.apply(all);
///
/// Other rules do not compile.
template <class Updater> class compressed_parameter {
    static_assert(detail::sends_messages<typename Updater::rule_type>,
                  "gradstep: compressed_parameter: the rule compresses no gradients; expected dgc_momentum");
    using owned_type = gradstep::parameter<Updater>;

public:
    /// The type of a value, as in `parameter`.
    using storage = typename owned_type::storage;
    /// The type of an element of the state, as in `parameter`.
    using state_type = typename owned_type::state_type;

    /// Constructs a `parameter` with the same arguments.
    template <class Buffer>
    compressed_parameter(Updater const& optimizer, Buffer const& initial, parameter_options options = {})
        : parameter_(optimizer, initial, options) {}
    /// Continues with an existing parameter.
    explicit compressed_parameter(owned_type owned) : parameter_(std::move(owned)) {}

    /// The first half of a step: returns the message of this trainer. The clock advances, and the
    /// values wait for `apply`. If the gradient is not finite, `skip` makes a message without
    /// entries, and `raise` throws.
    ///
    /// Throws the errors of `parameter::update`, and sequence_error if the messages of the previous
    /// step have not been applied, or an average has replaced the values. The clock is unchanged if
    /// nothing has been written. If an executor or a device fails, the state can already contain
    /// the gradient. The clock then counts the step, which has no message, and `apply` throws
    /// sequence_error.
    template <class G> sparse_message compress(G&& gradient, step_options const& options = {}) {
        static_assert(detail::contiguous_buffer<G>,
                      "gradstep: compress: the gradient is lazy, and the rule reads it more than once; expected "
                      "memory; evaluate it first");
        detail::dense_parameter& own = parameter_.core();
        own.take_gradient(parameter_.given(gradient), options, "compress");
        return detail::compressed_step(own).compress(options, !own.refused_nonfinite());
    }
    /// The second half of a step: moves the values by the mean of the messages of all trainers.
    /// Give the messages in the order of the ranks, as a contiguous range or one by one. Throws
    /// value_error for messages of another step or parameter: you can then call it again with other
    /// messages. Throws sequence_error if `compress` has not been called, or an average has
    /// replaced the values. If an executor or a device fails, some values can have moved. A second
    /// `apply` then throws sequence_error, because it would move them twice.
    template <class... Messages> void apply(Messages const&... messages) {
        detail::message_list all;
        (detail::append(all, messages), ...);
        detail::compressed_step(parameter_.core()).apply(all);
    }
    /// Whether `compress` has been called, and `apply` has not.
    bool awaits_messages() const { return parameter_.core().awaited_step() != 0; }

    /// A whole step for a single trainer, like `parameter::update`. Also throws sequence_error
    /// between `compress` and `apply`.
    template <class G> update_result update(G&& gradient, step_options const& options = {}) {
        return parameter_.update(gradient, options);
    }

    /// The number of elements, `size()`; the `clock()`; and the policies, `optimizer()`.
    std::size_t size() const { return parameter_.size(); }
    gradstep::clock clock() const { return parameter_.clock(); }
    Updater const& optimizer() const { return parameter_.optimizer(); }
    /// The values, read-only, valid until the next `apply` or `update`.
    std::span<storage const> values() const requires owned_type::on_host { return parameter_.values(); }
    /// A state slot by name, as in `parameter`.
    template <fixed_string Name> std::span<state_type const> state() const requires owned_type::on_host {
        return parameter_.template state<Name>();
    }
    std::span<state_type const> state(std::string_view name) const requires owned_type::on_host {
        return parameter_.state(name);
    }

    /// The parameter. Between `compress` and `apply`, its `update`, `ascend`, `save` and `load`
    /// throw sequence_error, too.
    owned_type const& parameter() const { return parameter_; }
    owned_type& parameter() { return parameter_; }

    /// Writes a checkpoint, as `parameter::save` does, with the same files. Also throws
    /// sequence_error between `compress` and `apply`, as the functions of gradstep/saved/blob.hpp
    /// do.
    void save(std::string const& file) const { detail::save_file(file, *this); }
    /// Resumes from a file of `save`, as `parameter::load` does.
    void load(std::string const& file) { detail::load_file(file, *this); }
    /// Loads the parts that `options` select, and returns a load_report.
    auto load(std::string const& file, load_options const& options) { return detail::load_file(file, *this, options); }

private:
    owned_type parameter_;
};
template <class Updater, class Buffer> compressed_parameter(Updater, Buffer const&) -> compressed_parameter<Updater>;
template <class Updater, class Buffer>
compressed_parameter(Updater, Buffer const&, parameter_options) -> compressed_parameter<Updater>;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
template <class Updater> struct state_access<compressed_parameter<Updater>> {
    using parameter_access = state_access<parameter<Updater>>;

    static saved_state get(compressed_parameter<Updater> const& x, char const* call, row_progress& at) {
        return parameter_access::get(x.parameter(), call, at);
    }
    static bool load(compressed_parameter<Updater>& x, saved_source const& from, bool resizes) {
        return parameter_access::load(x.parameter(), from, resizes);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
