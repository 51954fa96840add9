#pragma once
#include <gradstep/base/detail/sequence.hpp>
#include <gradstep/clipping/detail/refused_gradient.hpp>
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/saved/detail/parameter_rows.hpp>
#include <gradstep/saved/parameter.hpp>
#include <gradstep/step/ascent.hpp>
#include <gradstep/step/changing_rows.hpp>
#include <gradstep/step/state_visitor.hpp>
#include <gradstep/updater.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The memory and the updater of one parameter: values, state slots and clock, in the memory of the
/// updater's backend.
///
///     gs::parameter weights{optimizer, initial};    // copies the values; the clock starts at 0
///     weights.update(gradient);
template <class Updater> class parameter : public changing_rows<parameter<Updater>> {
    using traits = typename Updater::traits;
    using backend = typename Updater::backend_type;
    template <class T> using buffer = typename backend::template buffer<T>;

public:
    /// The types of a value (`storage`) and of an element of the state (`state_type`), and whether
    /// both are in host memory (`on_host`).
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    static constexpr bool on_host = std::is_same_v<typename backend::memory_space, host_memory>;

    /// Copies the policies of `optimizer` and the values of `initial`, and sets the state to
    /// step 0. The clock starts at 0. `initial` is a contiguous buffer in row-major order, in host
    /// memory or in the backend's memory. A span is assumed to be in the backend's memory. Throws
    /// buffer_error for memory that is missing, and size_error for a shape with another number of
    /// elements.
    template <class Buffer>
    parameter(Updater const& optimizer, Buffer const& initial, parameter_options options = {})
        : updater_(optimizer), options_(options) {
        auto const from = given_values("initial", initial);
        set_shape(options.shape.is_known() ? options.shape : detail::shape_of(initial), from.size());
        memory_.values = updater_.backend().copy_of(from, space_of<Buffer>{});
        make_state();
        updater_.seek({});
        call([&](auto... slots) { updater_.initialize(value_span(), slots...); });
    }

    /// Does not compile: pass the optimizer first, then the initial values.
    template <class Buffer>
    parameter(Buffer const&, std::type_identity_t<Updater> const& optimizer, parameter_options = {})
        : updater_(optimizer) {
        static_assert(
            sizeof(Buffer) == 0,
            "gradstep: parameter: the arguments are in another order; expected gs::parameter{optimizer, initial}");
    }

    /// Updates the parameter by one step with this gradient. `options` are as in
    /// `updater::next_step`. If a check fails, it throws before it writes anything, and the clock
    /// does not advance. parameter_options define the treatment of a gradient that is not finite.
    /// With `raise`, it throws a nonfinite_error with the first such element. If your thread pool
    /// throws (callback_executor), parts of the step can have happened: the clock then counts the
    /// step.
    template <class G> update_result update(G&& gradient, step_options const& options = {}) {
        require_trained("update");
        return step_by(gradient, options, [] {});
    }

    /// The first half of a step of sharpness-aware minimization (`sam_options`): moves the values
    /// along the gradient, to where your program computes the second gradient.
    ///
    ///     weights.ascend(gradient_at(weights.values()), {.rho = 0.05});
    ///     weights.descend(gradient_at(weights.values()));
    ///
    /// The clock and the state do not change. The gradient must be memory. Throws the errors of
    /// `update`, value_error for a gradient whose norm is not finite, and sequence_error for a
    /// second `ascend`. Nothing has changed then. With `on_nonfinite = skip`, a gradient that is
    /// not finite is reported, and the values stay.
    template <class G> ascent_result ascend(G&& gradient, sam_options const& how = {}) {
        static_assert(detail::contiguous_buffer<G>,
                      "gradstep: ascend: the gradient is lazy, and its norm is read first; expected memory");
        require_trained("ascend");
        detail::check(how);
        auto const& by = updater_.backend();
        if (!options_.bfloat16_copy.empty())
            detail::fail<value_error>({"ascend"}, {"parameter_options.bfloat16_copy is set, and only the values move"},
                                      {"no copy"});
        if (auto const found = detail::refused_nonfinite(by, options_.on_nonfinite, gradient, size()))
            return {false, 0, found};
        slice<Updater> const x = as_slice_of(gradient);
        x.check_buffers();
        std::span<storage const> const g = x.gradient;
        ascent_.make_room(size());
        if (how.adaptive) ascent_.measure(by, x.weight, g, how.eta, 0, size());
        double const norm = global_norm(by, how.adaptive ? ascent_.kept() : g);
        if (!std::isfinite(norm))
            detail::fail<value_error>({"ascend"}, {"the norm of the gradient is ", norm},
                                      {"finite gradients; on_nonfinite = skip leaves such steps out"});
        ascent_.keep(by, x.weight, 0, size());
        is_ascended_ = true;
        ascent_.move(by, x.weight, g, how, how.scale(norm), 0, size());
        return {true, norm, {}};
    }
    /// The second half: restores the values bit for bit, and updates them by one step with the
    /// gradient at the values that `ascend` has left. Arguments, results and errors are as for
    /// `update`. If a check fails, nothing has changed, and you can call it again. If
    /// `on_nonfinite` skips the step, the values are restored. Throws sequence_error without an
    /// `ascend`, and if the model of this parameter has moved the values.
    template <class G> update_result descend(G&& gradient, step_options const& options = {}) {
        if (is_locked_for_ascent_) detail::refuse_locked("descend");
        if (!is_ascended_) detail::refuse_descend();
        auto const back = [&] { restore(); };
        update_result const result = step_by(gradient, options, back);
        if (!result.applied) restore();
        return result;
    }
    /// Whether `ascend` has moved the values, here or in the model, and neither `descend` nor
    /// `restore` was called.
    bool is_ascended() const { return is_ascended_; }

    /// Returns a slice with the parameter's values and state and this gradient, for a step over
    /// several tensors. It refers to the parameter's memory.
    template <class G> slice<Updater> as_slice(G&& gradient) {
        detail::require_lasting<G>();
        require_trained("as_slice");
        return as_slice_of(gradient);
    }

    /// The number of elements, `size()`; the `clock()`; and the policies, `optimizer()`.
    std::size_t size() const { return memory_.values.size(); }
    gradstep::clock clock() const { return updater_.clock(); }
    Updater const& optimizer() const { return updater_; }
    /// The policies, writable: you can set the clock, or continue with other hyperparameters.
    Updater& optimizer() { return updater_; }
    /// The number of rows: of the shape, or else of elements.
    std::size_t rows() const { return options_.shape.is_known() ? options_.shape.memory_rows() : size(); }
    /// The options of the constructor, with the shape.
    parameter_options const& options() const { return options_; }
    /// Sets the shape. Throws size_error for a shape with another number of elements. The state of
    /// a factored rule (adafactor) has its lengths: before the first step it is allocated again,
    /// and afterwards another shape throws sequence_error.
    void set_shape(gradstep::shape const& of) {
        if constexpr (factored_rule<typename Updater::rule_type>) {
            if (of.rows != options_.shape.rows || of.cols != options_.shape.cols) {
                detail::require_elements("shape", of, size());
                if (clock().step != 0) detail::refuse_reshaped();
                require_trained("set_shape");
                auto before = std::exchange(options_.shape, of);
                detail::rollback_guard back([&] { options_.shape = before; });
                make_state();
                call([&](auto... slots) { updater_.initialize(value_span(), slots...); });
                back.dismiss();
            }
        }
        set_shape(of, size());
    }

    /// The values, read-only, valid until the next update. On a device use `copy_to`.
    std::span<storage const> values() const requires on_host { return {memory_.values.data(), memory_.values.size()}; }
    /// The values in the backend's memory, read-only, valid until the next update.
    std::span<storage const> memory() const {
        return {detail::traits_of<buffer<storage>>::data(memory_.values), size()};
    }
    /// Sets all values, for example to pretrained ones, from a buffer as the constructor takes it.
    /// The state follows as in `updater::weights_set`, and training goes on from the new values:
    /// the master copy becomes them, and moments and the clock stay. The next step writes the
    /// bfloat16_copy. Throws size_error, buffer_error, and sequence_error while an average is
    /// applied, or between `ascend` and `descend`. Nothing has changed then.
    template <class Buffer> void set_values(Buffer const& values) {
        require_trained("set_values");
        auto const from = given_values("set_values", values);
        if (from.size() != size())
            detail::fail<size_error>({"set_values"}, {"there are ", from.size(), " values"}, {size()});
        auto const to = value_span();
        if constexpr (!std::is_same_v<space_of<Buffer>, typename backend::memory_space>)
            updater_.backend().copy_from_host(from, to.data());
        else if (from.data() != to.data()) detail::copy(updater_.backend(), from, to);
        detail::follow_weights(updater_, memory_.whole(), clock().step);
    }
    /// Copies the values to a host buffer of the same size. Waits for a device.
    template <class Buffer> void copy_to(Buffer&& host) const {
        detail::require_lasting<Buffer>();
        auto const to = detail::as_span<storage, host_memory>(host);
        if (to.size() != size())
            detail::fail<size_error>({"copy_to"}, {"the buffer has ", to.size(), " elements"}, {size()});
        detail::require_layout(host, to);
        updater_.backend().copy_to_host(memory(), to);
    }

    /// Returns a copy of the average of the values that the rule keeps (`averaged`). It has the
    /// type of the state, which keeps all digits of the average. Waits for a device. It does not
    /// compile if the rule keeps no average. Throws sequence_error between `ascend` and `descend`.
    std::vector<state_type> average() const {
        if (is_ascended_) detail::refuse_ascended("average");
        if constexpr (detail::require_average<typename Updater::rule_type>())
            return detail::averages_on_host(updater_, size(), [&](auto out) { read_average(out); });
        else return {};
    }
    /// Replaces the values by their average, rounded to the type of the values, until the returned
    /// object is destroyed or you call `restore()`. It allocates memory for a copy of the values.
    /// You cannot take a step in the meantime. Throws sequence_error if an average has already
    /// replaced the values.
    [[nodiscard]] applied_average<parameter> apply_average() {
        require_trained("apply_average");
        if constexpr (detail::require_average<typename Updater::rule_type>()) {
            buffer<storage> averages(size());
            read_average(std::span<storage>(backend::data(averages), size()));
            replace_values(std::move(averages));
        }
        return applied_average<parameter>(*this);
    }
    /// The same with averages that you pass in host memory, for example from an `averager`. Also
    /// throws size_error and buffer_error.
    template <detail::contiguous_buffer Averages>
    [[nodiscard]] applied_average<parameter> apply_average(Averages const& averages) {
        require_trained("apply_average");
        auto const from = detail::as_span<detail::element_type<Averages const>, host_memory>(averages);
        if (from.size() != size())
            detail::fail<size_error>({"apply_average"}, {from.size(), " averages for ", size(), " values"},
                                     {"as many"});
        if (from.data() == nullptr && !from.empty())
            detail::fail<buffer_error>({"apply_average"}, {"averages is null"}, {from.size(), " elements of memory"});
        std::vector<storage> rounded(size());
        for (std::size_t i = 0; i < size(); ++i)
            rounded[i] = storage(static_cast<typename traits::compute>(detail::widen(from[i])));
        auto values = updater_.backend().copy_of(std::span<storage const>(rounded), host_memory{});
        replace_values(std::move(values));
        return applied_average<parameter>(*this);
    }
    /// Restores the trained values, bit for bit, after `apply_average` or `ascend`. Throws
    /// sequence_error if they are in place, and if `ascend` of the model has moved them.
    void restore() {
        if (is_locked_for_ascent_) detail::refuse_locked("restore");
        if (is_ascended_) {
            ascent_.restore(updater_.backend(), value_span(), 0, size());
            is_ascended_ = false;
            return;
        }
        if (!average_is_applied_) detail::refuse_restore();
        memory_.values = std::exchange(trained_, {});
        average_is_applied_ = false;
    }
    /// Whether an average has replaced the values.
    bool average_is_applied() const { return average_is_applied_; }

    /// Writes a checkpoint to a safetensors file: values, state, clock and policies. A header-only
    /// program must include gradstep/checkpoint.hpp. An existing file is replaced when the new
    /// one is complete and on the disk. If an average has replaced the values, the file contains
    /// the trained values, from which training resumes. Throws io_error, value_error for an element
    /// that the format does not support, and sequence_error between `ascend` and `descend`.
    void save(std::string const& file) const { detail::save_file(file, *this); }
    /// Resumes from a file of `save`, bit for bit. The saved parameter must have the same size,
    /// element and rule. This parameter keeps its own hyperparameters.
    ///
    /// Throws the errors of `save`, sequence_error if an average has replaced the values, and
    /// value_error or size_error for a file that does not match, with the first difference. The
    /// parameter is then unchanged. If the system or a device fails to read in the middle of the
    /// data, some values and state are loaded and others are not.
    void load(std::string const& file) { detail::load_file(file, *this); }
    /// Loads the parts that `options` select (gradstep/saved/load_options.hpp). The name of the
    /// parameter is "values". Returns a load_report. Throws the errors of the other `load`. With
    /// changed_rows::resize, the shape defines the length of a row. Without a shape, the file
    /// defines it, or a row is one element.
    auto load(std::string const& file, load_options const& options) { return detail::load_file(file, *this, options); }

    /// A state slot by name, checked at compile time: `state<"m">()`.
    template <fixed_string Name> std::span<state_type const> state() const requires on_host {
        constexpr std::size_t i = detail::slot_named<Updater>(Name.view());
        static_assert(
            i < Updater::slots,
            "gradstep: state: the updater has no state slot of this name; expected one of the rule's `state_names`");
        return {memory_.state[i].data(), memory_.state[i].size()};
    }
    /// A state slot by its name at run time. Throws value_error for an unknown name, with the names
    /// of the slots.
    std::span<state_type const> state(std::string_view name) const requires on_host {
        std::size_t const i = detail::slot_named<Updater>(name);
        if (i >= Updater::slots) detail::refuse_slot(name, Updater::state_names);
        return {memory_.state[i].data(), memory_.state[i].size()};
    }

    /// Describes trained values, state, policies and clock to a visitor, for gradstep's files and
    /// saved states; without the decay if the parameter has none. Only `load` writes to the memory
    /// that the visitor gets. Throws sequence_error between `ascend` and `descend`.
    void describe_state(detail::state_visitor& to, bool decay = true) const {
        if (is_ascended_) detail::refuse_ascended("save or load");
        auto& self = const_cast<parameter&>(*this);
        auto const values = self.trained_span();
        self.call([&](auto... slots) {
            detail::visit_state(to, detail::tensor<Updater>(values, slots...), updater_, decay);
        });
        detail::visit_shape(to, options_.shape);
    }
    /// Continues from a saved state: its clock, and the id if there is one. The state of the first
    /// `loaded` elements belongs to it; averages of the others stay as they are.
    void resume(gradstep::clock at, std::optional<std::uint64_t> id, std::size_t loaded = SIZE_MAX) {
        detail::keep_averages<Updater>(updater_, memory_.whole(), loaded, clock().step, at.step);
        updater_.seek(at);
        if (id) options_.id = *id;
    }
    /// @cond
    // The parts of a change of rows, for changing_rows and for models. `rearranged` allocates all
    // memory, and `commit_rows` changes the parameter.
    detail::row_lengths row_lengths(char const* call) const {
        require_trained(call);
        return detail::row_lengths_of(call, options_.shape, size());
    }
    template <class Values> auto added_values(Values const& values) const {
        using own = typename backend::memory_space;
        return detail::values_on_host<storage, own>(updater_.backend(), values);
    }
    detail::rearranged_memory<Updater> rearranged(detail::row_order const& order, std::span<storage const> added) {
        if (!options_.bfloat16_copy.empty() && order.moves_values()) detail::refuse_copied_rows();
        return detail::rearranged(updater_, memory_, options_.shape, order, added);
    }
    void commit_rows(detail::rearranged_memory<Updater>&& made) noexcept {
        options_.shape = made.shape;
        static_cast<detail::parameter_memory<Updater>&>(memory_) = std::move(made);
    }
    // Whether the model has moved the values, and keeps those before.
    void set_ascent_lock(bool is) { is_ascended_ = is_locked_for_ascent_ = is; }
    /// @endcond

private:
    // Where a buffer that a call takes lies.
    template <class Buffer>
    using space_of = std::conditional_t<detail::lives_in<Buffer, typename backend::memory_space>,
                                        typename backend::memory_space, host_memory>;
    template <class Buffer> static std::span<storage const> given_values(char const* name, Buffer const& values) {
        auto const from = detail::as_span<storage const, space_of<Buffer>>(values);
        if (from.data() == nullptr && !from.empty())
            detail::fail<buffer_error>({name}, {"is null"}, {from.size(), " elements of memory"});
        detail::require_layout(values, from);
        return from;
    }
    // Allocates the state for the shape.
    void make_state() {
        std::array<buffer<state_type>, Updater::slots> made;
        for (std::size_t i = 0; i != Updater::slots; ++i) // there may be none, and nvcc warns of a < 0
            made[i] = buffer<state_type>(Updater::slot_size(i, memory_.values.size(), options_.shape));
        memory_.state = std::move(made);
    }
    void set_shape(gradstep::shape const& of, std::size_t n) {
        detail::require_elements("shape", of, n);
        options_.shape = of;
    }
    void require_trained(char const* call) const {
        if (average_is_applied_) detail::refuse_applied(call);
        if (is_ascended_) detail::refuse_ascended(call);
    }
    // One step; calls `before_it()` when everything has been checked.
    template <class G, class F> update_result step_by(G& gradient, step_options const& options, F const& before_it) {
        auto const& by = updater_.backend();
        if (auto const found = detail::refused_nonfinite(by, options_.on_nonfinite, gradient, size())) {
            detail::check(options); // as the step would
            if (options.zero_gradient) detail::zero_refused<storage>(by, gradient);
            return {false, found};
        }
        gradstep::clock const before = updater_.clock();
        auto const step = updater_.next_step(options);
        detail::rollback_guard clock_back([&] { updater_.seek(before); });
        auto const run = [&](auto pending) {
            before_it();
            clock_back.dismiss();
            pending();
        };
        if constexpr (detail::contiguous_buffer<G>) {
            slice<Updater> x = as_slice_of(gradient);
            x.id = options_.id;
            run(step.begin(x));
        } else {
            if (!options_.bfloat16_copy.empty())
                detail::fail<buffer_error>({"parameter_options.bfloat16_copy"}, {"is set, and the gradient is lazy"},
                                           {"a gradient in memory"});
            call([&](auto... slots) {
                auto values = value_span();
                run(step.begin(options_.id, values, gradient, slots...));
            });
        }
        return {};
    }
    template <class G> slice<Updater> as_slice_of(G& gradient) {
        auto values = value_span();
        slice<Updater> out = call([&](auto... slots) { return slice<Updater>(values, gradient, slots...); });
        out.bfloat16_copy = options_.bfloat16_copy;
        out.shape = options_.shape;
        return out;
    }
    void replace_values(buffer<storage>&& averages) {
        trained_ = std::exchange(memory_.values, std::move(averages));
        average_is_applied_ = true;
    }
    template <class T> void read_average(std::span<T> out) const {
        auto& self = const_cast<parameter&>(*this); // a step's view of the memory may write; this one reads
        self.call([&](auto... slots) { updater_.average(out, self.trained_span(), slots...); });
    }
    std::span<storage> value_span() { return {backend::data(memory_.values), memory_.values.size()}; }
    // The values as they are trained, also while an average is in their place.
    std::span<storage> trained_span() {
        buffer<storage>& trained = average_is_applied_ ? trained_ : memory_.values;
        return {backend::data(trained), trained.size()};
    }

    // Calls f with one span for each slot.
    template <class F> decltype(auto) call(F const& f) {
        return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
            return f(std::span<state_type>(backend::data(memory_.state[I]), memory_.state[I].size())...);
        }
        (std::make_index_sequence<Updater::slots>{});
    }

    Updater updater_;
    parameter_options options_;
    detail::parameter_memory<Updater> memory_;
    buffer<storage> trained_; // the values while the average is in their place (g++ 12 warns of an optional at -O3)
    detail::ascent_state<typename Updater::element_type, backend> ascent_;
    bool average_is_applied_ = false, is_ascended_ = false, is_locked_for_ascent_ = false;
};
template <class Updater, class Buffer> parameter(Updater, Buffer const&) -> parameter<Updater>;
template <class Updater, class Buffer> parameter(Updater, Buffer const&, parameter_options) -> parameter<Updater>;

// Initial values before the optimizer: one sentence, instead of what the class says of a vector
// that is no updater.
template <class Buffer, class... Policies>
parameter(Buffer const&, updater<Policies...> const&) -> parameter<updater<Policies...>>;
template <class Buffer, class... Policies>
parameter(Buffer const&, updater<Policies...> const&, parameter_options) -> parameter<updater<Policies...>>;
} // namespace gradstep::inline GRADSTEP_ISA
