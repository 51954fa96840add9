#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/config.hpp>
#include <gradstep/core/buffer.hpp>
#include <gradstep/core/extent.hpp>
#include <gradstep/core/parameter_options.hpp>
#include <gradstep/core/rate_numbers.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>

/// GRADSTEP_RUNTIME, which linking gradstep::runtime defines: updaters of run time are defined in that library, beside the combinations
/// that their code looks for. gradstep::compiled has no combinations: in programs that link it alone this header defines them inline.
#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#define GRADSTEP_DEFINE_RUNTIME inline
#else
#define GRADSTEP_DEFINE_RUNTIME
#endif

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// The place of a policy in the list that its variant is made of, and itself.
template <class Variant> std::pair<std::size_t, void const*> place_of(Variant const& policy) {
    return {policy.index(), std::visit([](auto const& p) -> void const* { return &p; }, policy)};
}
template <class List> std::string name_in_list(std::size_t place) {
    std::string name;
    std::size_t i = 0;
    List::any([&]<class Policy>() { return i++ == place && (name = type_name<Policy>(), true); });
    return name;
}
std::string name_of_element(scalar storage, element_form form);
// By which regularizer among those that are compiled the parts are meant.
std::size_t place_of_regularizer(std::span<runtime::regularizer_part const> parts);

// "; there is ..." for those who asked for what there is not: the nearest that there is, in what differs least.
[[noreturn, gnu::cold]] void refuse_combination(runtime::combination const& wanted, scalar storage, element_form form,
                                                std::size_t regularizer, std::string const& regularizer_name);

// Policies as they are looked for. Throws not_compiled_error for several averages around each other.
runtime::combination combination_of(configuration const& of);
// The first of elements [first, last) of a gradient that is not finite, else `last`.
std::size_t find_nonfinite(scalar type, void const* gradient, std::size_t first, std::size_t last);
// The threads of all updaters that ask for so many; null for one. They end with the last of these.
std::shared_ptr<thread_pool> shared_pool(std::int64_t count);
// What is compiled for policies and an element. Throws not_compiled_error, naming the nearest that is.
std::unique_ptr<runtime::compiled_updater> find_compiled(configuration const& of, scalar storage, element_form form);

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// A tensor of whatever elements, as any_updater takes it: the memory stays the caller's. `slots` in the order of the updater's,
/// of its types. Containers that are variables are referred to, as any_span has it.
struct any_tensor {
    any_span values, gradient;
    std::span<any_span const> slots;
    /// Names the tensor in stochastic rounding; of tensors of one step they have to differ. Left out, it is the position of the
    /// tensor in the call, 0 in a call of one, plus the `id` of the optimizer's text.
    std::optional<std::uint64_t> id = {};
    /// Multiplies the learning rate for this tensor; finite and >= 0. A step is prepared once for each value in a call.
    double rate_scale = 1;
    /// Multiplies the rates of l1, l2, elastic_net, decoupled, after_step and proximal for this tensor; false or 0 leaves them out.
    /// Clipping stays. Finite and >= 0.
    decay_factor decay = 1;
    /// The number of this tensor's step, from 1, where it has taken fewer or more than the clock counts, as `slice::step`.
    std::optional<std::int64_t> step = {};
};

class any_parameter;

/// An updater whose policies are chosen at run time: policies and a clock, all memory the caller's.
///
///     gs::any_updater optimizer{gs::read_optimizer(text), gs::scalar::float32};
///     optimizer.initialize({w, {}, slots});
///     optimizer.next_step();
///     optimizer.apply({w, g, slots});         // any number of tensors, from any thread
///
/// The policies have to be among those that are compiled into the program (runtime/compile.hpp), and the step has the bits that
/// `gs::updater` of them has. What is looked up at run time is a call for each tensor.
class any_updater {
public:
    /// What it updates, and the parameter that owns its memory, for gs::model.
    using tensor_type = any_tensor;
    using parameter_type = any_parameter;

    /// Throws value_error for a number that is missing or out of its range, and not_compiled_error, which names the nearest there
    /// is, where the policies are not compiled for elements of `storage` in that form.
    any_updater(configuration policies, scalar storage, element_form form = element_form::plain);
    /// The same from an optimizer's text, with all of its keys. `clip_value` acts before the regularizers. Steps
    /// whose options have no seed use `seed`. `id` is added to the position of a tensor without an id. `on_nonfinite`
    /// checks every gradient of `apply`. `apply` without an executor uses `threads`; copies share them. Also throws
    /// value_error for a clip by a norm, since a step is prepared before its gradients exist.
    any_updater(optimizer_configuration const& from, scalar storage);
    any_updater(any_updater const& other);
    any_updater(any_updater&&) = default;
    /// Policies, clock and prepared step of another one.
    any_updater& operator=(any_updater other) noexcept;

    /// The policies; how an element is kept, `form()`; the type of values and gradients, and of the state, in memory, `storage()` and
    /// `state_type()`.
    configuration const& policies() const { return policies_; }
    /// What the optimizer of a text has besides its policies; the defaults where it was made of policies alone.
    optimizer_options const& options() const { return options_; }
    element_form form() const { return form_; }
    scalar storage() const { return facts().storage; }
    scalar state_type() const { return facts().state; }
    /// The state slots: their number, the name of slot i, `slot_name(i)`, and its length for a tensor of n elements, `slot_size(i, n)`:
    /// 1 where a row-wise rule keeps one number for the whole tensor.
    std::size_t slots() const { return facts().slots; }
    char const* slot_name(std::size_t i) const { return facts().slot_names[i]; }
    std::size_t slot_size(std::size_t i, std::size_t n) const { return facts().is_row_slot(i) ? 1 : n; }
    /// Whether the rule keeps an average of the weights.
    bool keeps_average() const { return facts().keeps_average; }
    /// One line for logs.
    std::string description() const;

    /// For checkpoints, as updater::visit_policies.
    void visit_policies(detail::policy_visitor& to) const { detail::visit_policies(policies_, to); }

    /// Sets the state of a tensor to that of step 0. Throws as `apply`.
    void initialize(any_tensor const& tensor) const { compiled_->initialize(checked(tensor, false)); }
    /// Prepares the next step, as updater::next_step; the clock advances. Throws as that, with the clock where it was.
    void next_step(step_options options = {}, member_options const& own = {});
    /// That step of one tensor. Under `on_nonfinite = skip` a gradient that is not finite leaves its tensor as it is (zero_gradient is
    /// done), and the element comes back. Throws value_error for other types than its own, size_error, buffer_error for memory that
    /// is missing, misaligned or overlaps, sequence_error without next_step, nonfinite_error under `raise`; nothing is written then.
    std::optional<nonfinite_element> apply(any_tensor const& tensor) const;
    /// That step of many tensors in one call: one pass, split over the threads of an executor by memory traffic (tensors of row-wise
    /// rules one after the other); without an executor on those that the optimizer's text asks for, else the caller's. All are
    /// checked before any is written, except for overlaps of one tensor with another. Throws as for one tensor, naming the number
    /// of the tensor. What comes back is the first element that is not finite.
    std::optional<nonfinite_element> apply(std::span<any_tensor const> tensors) const;
    template <executor Executor>
    std::optional<nonfinite_element> apply(std::span<any_tensor const> tensors, Executor& threads) const {
        detail::executor_reference const given(threads);
        return apply_all(tensors, &given, 0);
    }

    /// Where the run stands; `seek` puts it back there, and the next call is then next_step. Throws value_error for a negative count.
    gradstep::clock clock() const { return clock_; }
    void seek(gradstep::clock at);

    /// Sets the threads of `apply` without an executor, as `threads` in an optimizer's text: 1 means the caller's
    /// thread, 0 one thread for each core that the process may use. Updaters with the same number share them.
    /// `threads()` is their pool, null for the caller's thread.
    void use_threads(std::int64_t count) { pool_ = detail::shared_pool(count); }
    void use_threads(any_updater const& of) { pool_ = of.pool_; }
    thread_pool* threads() const { return pool_.get(); }
    /// It with the decaying parts of its regularizer `factor` times as fast, without them for 0, at the same clock; no step is
    /// prepared. Throws as the constructor.
    any_updater with_decay(double factor) const;

    /// For those who own the memory (any_parameter): what is compiled; the step that is prepared, `prepared_step()`, and what its type
    /// says, `facts()`.
    runtime::compiled_updater const& compiled() const { return *compiled_; }
    runtime::compiled_updater& compiled() { return *compiled_; }
    step_info prepared_step() const { return step_; }
    runtime::updater_facts const& facts() const { return compiled_->facts(); }

    /// Throws sequence_error unless a step is prepared.
    void require_step(char const* call) const;
    /// Throws buffer_error or size_error unless the memory of a tensor is there, aligned, and apart from each other; `number` is
    /// the tensor's in a call of several.
    void require(runtime::erased_tensor const& x, bool has_gradient, std::size_t number = detail::only_tensor) const;

    /// Values and state of a tensor, checked for a step; the gradient is not looked at. Throws as `initialize`, and buffer_error for
    /// values that are const.
    runtime::erased_tensor checked_memory(any_tensor const& x) const;
    /// The first element of the gradient that is not finite, where `on_nonfinite = skip` leaves the tensor out for it; else the size.
    /// Throws nonfinite_error under `raise`. `number` is the tensor's in a call of several.
    std::size_t refused_element(runtime::erased_tensor const& x, std::size_t number = detail::only_tensor) const;
    /// What `zero_gradient` asks for where a tensor is left out.
    void zero_gradient(runtime::erased_tensor const& x) const;

private:
    enum class prepared { no, yes, zeroes };

    // As for_each_piece_of takes it.
    struct tensor_of_call {
        runtime::erased_tensor memory;
        runtime::compiled_updater const* by;
        std::size_t size() const { return memory.size; }
        std::size_t bytes_per_element() const { return by->facts().bytes_per_element; }
    };
    // The prepared steps of tensors that have a rate_scale or a decay of their own, each once for a call.
    class other_steps {
    public:
        explicit other_steps(any_updater const& of) : of_(of) {}
        runtime::compiled_updater const* of(any_tensor const& x, std::size_t number);

    private:
        any_updater const& of_;
        detail::rate_numbers numbers_;
        std::vector<std::unique_ptr<runtime::compiled_updater>> steps_;
    };
    bool decays() const;
    configuration policies_with(double decay) const;

    detail::executor_reference own_threads() const;
    std::optional<nonfinite_element> apply_all(std::span<any_tensor const> tensors,
                                               detail::executor_reference const* threads, std::size_t number) const;
    template <class Pointers> void run_all(Pointers const& all, detail::executor_reference const* threads) const;

    [[noreturn, gnu::cold]] void refuse(std::array<detail::extent, 2 + runtime::most_slots> const& all,
                                        std::size_t number) const;
    runtime::erased_tensor checked(any_tensor const& given, bool has_gradient,
                                   std::size_t number = detail::only_tensor) const;

    configuration policies_;
    element_form form_;
    std::unique_ptr<runtime::compiled_updater> compiled_;
    optimizer_options options_ = {};
    std::shared_ptr<thread_pool> pool_; // of options_.threads, which copies share; null: the caller's thread
    gradstep::clock clock_ = {};
    step_info step_ = {};
    step_options step_options_ = {}; // of that step
    prepared prepared_ = prepared::no;
};
} // namespace GRADSTEP_ABI

namespace detail {
inline namespace GRADSTEP_ABI {
// Throws value_error unless two updaters differ in their numbers and regularizers alone.
void require_same_types(any_updater const& a, any_updater const& b);
} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/any_updater.ipp>
#endif
