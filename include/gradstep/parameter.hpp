#pragma once
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/engine/detail/dense_parameter.hpp>
#include <gradstep/engine/detail/kernels_of.hpp>
#include <gradstep/memory/applied_average.hpp>
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
template <class Updater> class parameter : private detail::dense_parameter, public changing_rows<parameter<Updater>> {
    using traits = typename Updater::traits;
    using backend = typename Updater::backend_type;

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
        : dense_parameter(model_wise_rule<typename Updater::rule_type>, options), own_updater_(optimizer) {
        auto const from = given_values("initial", initial);
        gradstep::shape const known = options.shape.is_known() ? options.shape : detail::shape_of(initial);
        begin(from.data(), from.size(), std::is_same_v<space_of<Buffer>, host_memory>, known);
    }

    /// Does not compile: pass the optimizer first, then the initial values.
    template <class Buffer>
    parameter(Buffer const&, std::type_identity_t<Updater> const& optimizer, parameter_options = {})
        : dense_parameter(false, {}), own_updater_(optimizer) {
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
        if constexpr (detail::contiguous_buffer<G>) return dense_parameter::update(given(gradient), options);
        else return update_lazily(gradient, options, false);
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
        return dense_parameter::ascend(given(gradient), how);
    }
    /// The second half: restores the values bit for bit, and updates them by one step with the
    /// gradient at the values that `ascend` has left. Arguments, results and errors are as for
    /// `update`. If a check fails, nothing has changed, and you can call it again. If
    /// `on_nonfinite` skips the step, the values are restored. Throws sequence_error without an
    /// `ascend`, and if the model of this parameter has moved the values.
    template <class G> update_result descend(G&& gradient, step_options const& options = {}) {
        if constexpr (detail::contiguous_buffer<G>) return dense_parameter::descend(given(gradient), options);
        else return update_lazily(gradient, options, true);
    }
    /// Whether `ascend` has moved the values, here or in the model, and neither `descend` nor
    /// `restore` was called.
    using dense_parameter::is_ascended;

    /// Returns a slice with the parameter's values and state and this gradient, for a step over
    /// several tensors. It refers to the parameter's memory.
    template <class G> slice<Updater> as_slice(G&& gradient) {
        detail::require_lasting<G>();
        require_trained("as_slice");
        auto values = value_span();
        slice<Updater> out = call([&](auto... slots) { return slice<Updater>(values, gradient, slots...); });
        out.bfloat16_copy = options_.bfloat16_copy;
        out.shape = options_.shape;
        return out;
    }

    /// The number of elements, `size()`; the `clock()`; and the policies, `optimizer()`.
    using dense_parameter::clock, dense_parameter::size;
    Updater const& optimizer() const { return own_updater_.updater(); }
    /// The policies, writable: you can set the clock, or continue with other hyperparameters.
    Updater& optimizer() { return own_updater_.updater(); }
    /// The number of rows: of the shape, or else of elements.
    std::size_t rows() const { return options_.shape.is_known() ? options_.shape.memory_rows() : size(); }
    /// The options of the constructor, with the shape.
    using dense_parameter::options;
    /// Sets the shape. Throws size_error for a shape with another number of elements. The state of
    /// a factored rule (adafactor) has its lengths: before the first step it is allocated again,
    /// and afterwards another shape throws sequence_error.
    using dense_parameter::set_shape;

    /// The values, read-only, valid until the next update. On a device use `copy_to`.
    std::span<storage const> values() const requires on_host { return memory(); }
    /// The values in the backend's memory, read-only, valid until the next update.
    std::span<storage const> memory() const { return {static_cast<storage const*>(memory_.values()), size()}; }
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
        put(from.data(), std::is_same_v<space_of<Buffer>, host_memory>);
    }
    /// Copies the values to a host buffer of the same size. Waits for a device.
    template <class Buffer> void copy_to(Buffer&& host) const {
        detail::require_lasting<Buffer>();
        auto const to = detail::as_span<storage, host_memory>(host);
        if (to.size() != size())
            detail::fail<size_error>({"copy_to"}, {"the buffer has ", to.size(), " elements"}, {size()});
        detail::require_layout(host, to);
        code().copy_to_host(memory_.values(), to.data(), to.size_bytes());
    }

    /// Returns a copy of the average of the values that the rule keeps (`averaged`). It has the
    /// type of the state, which keeps all digits of the average. Waits for a device. It does not
    /// compile if the rule keeps no average. Throws sequence_error between `ascend` and `descend`.
    std::vector<state_type> average() const {
        std::vector<state_type> out;
        if constexpr (detail::require_average<typename Updater::rule_type>()) {
            out.resize(size());
            average_on_host(out.data());
        }
        return out;
    }
    /// Replaces the values by their average, rounded to the type of the values, until the returned
    /// object is destroyed or you call `restore()`. It allocates memory for a copy of the values.
    /// You cannot take a step in the meantime. Throws sequence_error if an average has already
    /// replaced the values.
    [[nodiscard]] applied_average<parameter> apply_average() {
        require_trained("apply_average");
        if constexpr (detail::require_average<typename Updater::rule_type>()) put_average();
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
        detail::memory_block values(code().memory(), memory_.value_bytes());
        code().copy_from_host(rounded.data(), values.data(), values.bytes());
        put_values(std::move(values));
        return applied_average<parameter>(*this);
    }
    /// Restores the trained values, bit for bit, after `apply_average` or `ascend`. Throws
    /// sequence_error if they are in place, and if `ascend` of the model has moved them.
    void restore() { dense_parameter::restore(); }
    /// Whether an average has replaced the values.
    using dense_parameter::average_is_applied;

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
        return state_span(i);
    }
    /// A state slot by its name at run time. Throws value_error for an unknown name, with the names
    /// of the slots.
    std::span<state_type const> state(std::string_view name) const requires on_host {
        std::size_t const i = detail::slot_named<Updater>(name);
        if (i >= Updater::slots) detail::refuse_slot(name, Updater::state_names);
        return state_span(i);
    }

    /// Describes trained values, state, policies and clock to a visitor, for gradstep's files and
    /// saved states; without the decay if the parameter has none. Only `load` writes to the memory
    /// that the visitor gets. Throws sequence_error between `ascend` and `descend`.
    using dense_parameter::describe_state;
    /// Continues from a saved state: its clock, and the id if there is one. The state of the first
    /// `loaded` elements belongs to it; averages of the others stay as they are.
    using dense_parameter::resume;
    /// @cond
    // For models, files, changing_rows and compressed_parameter.
    detail::dense_parameter& core() { return *this; }
    detail::dense_parameter const& core() const { return *this; }
    // The gradient of a call.
    template <class G> detail::given_gradient given(G& gradient) const {
        auto const x = detail::as_span<storage const, typename backend::memory_space>(gradient);
        detail::require_layout(gradient, memory());
        return {x.data(), x.size(), detail::is_writable<G>()};
    }
    static std::unique_ptr<detail::dense_parameter> owned(parameter of) {
        return std::unique_ptr<detail::dense_parameter>(new parameter(std::move(of)));
    }
    using dense_parameter::row_lengths;
    template <class Values> auto added_values(Values const& values) const {
        using own = typename backend::memory_space;
        return detail::values_on_host<storage, own>(optimizer().backend(), values);
    }
    std::unique_ptr<detail::pending_rows> rearranged(detail::row_order const& order, std::span<storage const> added) {
        return changed_rows(order, added.data(), added.size());
    }
    void commit_rows(std::unique_ptr<detail::pending_rows> made) noexcept { made->commit(); }
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
    // A step with a gradient that is computed as it is read.
    template <class G> update_result update_lazily(G& gradient, step_options const& options, bool goes_back) {
        if (!goes_back) require_trained("update");
        else require_ascended();
        static_cast<void>(detail::refused_nonfinite(optimizer().backend(), options_.on_nonfinite, gradient, size()));
        gradstep::clock const before = clock();
        auto const step = optimizer().next_step(options);
        detail::rollback_guard clock_back([&] { optimizer().seek(before); });
        if (!options_.bfloat16_copy.empty())
            detail::fail<buffer_error>({"parameter_options.bfloat16_copy"}, {"is set, and the gradient is lazy"},
                                       {"a gradient in memory"});
        auto values = value_span();
        auto const pending = call([&](auto... slots) { return step.begin(options_.id, values, gradient, slots...); });
        if (goes_back) go_back();
        clock_back.dismiss();
        pending();
        return {};
    }
    std::span<storage> value_span() { return {static_cast<storage*>(memory_.values()), size()}; }
    std::span<state_type const> state_span(std::size_t i) const {
        return {static_cast<state_type const*>(memory_.state(i)), memory_.state_bytes(i) / sizeof(state_type)};
    }
    // Calls f with one span for each slot.
    template <class F> decltype(auto) call(F const& f) {
        return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
            return f(std::span<state_type>(static_cast<state_type*>(memory_.state(I)),
                                           memory_.state_bytes(I) / sizeof(state_type))...);
        }
        (std::make_index_sequence<Updater::slots>{});
    }

    // The functions of dense_parameter.
    detail::stepper& by() noexcept override { return own_updater_; }
    bool give_average([[maybe_unused]] detail::type_id element, [[maybe_unused]] void* out) override {
        if constexpr (detail::keeps_average<typename Updater::rule_type>)
            if (element == detail::type_id_of<state_type>()) {
                *static_cast<std::vector<state_type>*>(out) = average();
                return true;
            }
        return false;
    }
    detail::type_id storage_type() const override { return detail::type_id_of<storage>(); }
    detail::type_id face_type() const override { return detail::type_id_of<parameter>(); }
    void* face() override { return this; }

    detail::typed_stepper<Updater> own_updater_;
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
