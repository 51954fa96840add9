#pragma once
#include <gradstep/number/detail/reduce.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE update_result dense_parameter::update(given_gradient const& gradient, step_options const& options) {
    take_gradient(gradient, options, "update");
    return take_step(options, false);
}

GRADSTEP_DEFINE ascent_result dense_parameter::ascend(given_gradient const& gradient, sam_options const& how) {
    detail::check(how);
    take_gradient(gradient, {}, "ascend");
    if (!options_.bfloat16_copy.empty())
        fail<value_error>({"ascend"}, {"parameter_options.bfloat16_copy is set, and only the values move"},
                          {"no copy"});
    if (auto const found = refused_nonfinite()) return {false, 0, found};
    begin_ascent();
    if (how.adaptive) ascend_alone(how, 0, true);
    double const norm =
        root_of_squares([&](double scale) { return how.adaptive ? ascent_squares(scale) : sum_of_squares(scale); });
    if (!std::isfinite(norm))
        fail<value_error>({"ascend"}, {"the norm of the gradient is ", norm},
                          {"finite gradients; on_nonfinite = skip leaves such steps out"});
    keep_weights(0, size());
    is_ascended_ = reads_kept_ = true;
    ascend_alone(how, how.scale(norm), false);
    return {true, norm, {}};
}

GRADSTEP_DEFINE update_result dense_parameter::descend(given_gradient const& gradient, step_options const& options) {
    require_ascended();
    is_ascended_ = false; // for the checks of the step
    rollback_guard still_ascended([&] { is_ascended_ = reads_kept_; });
    take_gradient(gradient, options, "descend");
    return take_step(options, true);
}

GRADSTEP_DEFINE update_result dense_parameter::take_step(step_options const& options, bool goes_back) {
    detail::check(options); // before the gradient, as calls of several do
    if (auto const found = refused_nonfinite()) {
        if (goes_back) go_back();
        if (options.zero_gradient) zero_gradient();
        return {false, found};
    }
    begin_alone(options);
    if (goes_back) go_back();
    run_alone();
    return {};
}

GRADSTEP_DEFINE void dense_parameter::begin_alone(step_options const& options) {
    stepper& own = by();
    if (has_checks()) advance(options, own_);
    else own.next_step(options, own_);
}

GRADSTEP_DEFINE void dense_parameter::go_back() {
    restore_weights(0, size());
    is_ascended_ = reads_kept_ = false;
}

GRADSTEP_DEFINE void dense_parameter::restore(char const* call) {
    if (is_locked_for_ascent_) refuse_locked("restore");
    if (is_ascended_) return go_back();
    if (!average_.is_applied()) refuse_restore();
    if (!memory_.refers()) return static_cast<void>(memory_.exchange_values(average_.take()));
    require_trained_size(call);
    code().copy_memory(average_.trained(), memory_.values(), memory_.value_bytes());
    average_.take();
}

GRADSTEP_DEFINE void dense_parameter::require_trained_size(char const* call) const {
    std::size_t const before = average_.bytes() / facts().storage_bytes;
    if (before == size()) return;
    if (is_of_run_time())
        fail<size_error>({call},
                         {"there are ", size(), " elements, and there were ", before, " when the average was applied"},
                         {"as many"});
    fail<size_error>({call}, {"has ", size(), " elements"}, {before, ", as many as when the average was applied"});
}

GRADSTEP_DEFINE void dense_parameter::require_ascended() const {
    if (is_locked_for_ascent_) refuse_locked("descend");
    if (!is_ascended_) refuse_descend();
}

GRADSTEP_DEFINE void dense_parameter::begin(void const* values, std::size_t n, bool on_host,
                                            gradstep::shape const& of) {
    require_elements("shape", of, n);
    options_.shape = of;
    id_ = options_.id;
    memory_ = dense_memory(code(), n, of);
    write_values(values, on_host);
    by().seek({});
    code().initialize(tensor(nullptr), 0);
}

GRADSTEP_DEFINE void dense_parameter::write_values(void const* values, bool on_host) {
    if (on_host) code().copy_from_host(values, memory_.values(), memory_.value_bytes());
    else if (values != memory_.values()) code().copy_memory(values, memory_.values(), memory_.value_bytes());
}

GRADSTEP_DEFINE void dense_parameter::put(void const* values, bool on_host) {
    write_values(values, on_host);
    code().weights_set(tensor(nullptr), clock().step);
}

GRADSTEP_DEFINE void dense_parameter::set_shape(gradstep::shape const& of) {
    require_elements("shape", of, size());
    if (!facts().factor_slots.empty() && (of.rows != options_.shape.rows || of.cols != options_.shape.cols)) {
        if (clock().step != 0) refuse_reshaped();
        require_trained("set_shape");
        memory_.make_state(code(), of);
        options_.shape = of;
        code().initialize(tensor(nullptr), 0);
    }
    options_.shape = of;
}

GRADSTEP_DEFINE void dense_parameter::average_on_host(void* out) const {
    if (is_ascended_) refuse_ascended("average");
    memory_block const averages(code().memory(), size() * facts().state_bytes);
    read_average(true, averages.data());
    code().copy_to_host(averages.data(), out, averages.bytes());
}

GRADSTEP_DEFINE void dense_parameter::join(std::string const& name, tensor_options const& options) {
    own_ = options;
    if (facts().uses_id) id_ = hash_of(name); // independent of other parameters
}

GRADSTEP_DEFINE void dense_parameter::take_gradient(given_gradient const& gradient, step_options const& options,
                                                    char const* call) {
    require_trained(call);
    if (awaited_step_ != 0) refuse_pending(call);
    require_gradient(gradient, size(), options);
    gradient_ = gradient;
}

GRADSTEP_DEFINE void dense_parameter::require_gradient(given_gradient const& gradient, std::size_t count,
                                                       step_options const& options) const {
    extent const own{"gradient", gradient.data, gradient.size, gradient.size * facts().storage_bytes};
    if (gradient.size != count || (options.zero_gradient && !gradient.is_writable) || own.is_missing() ||
        memory_.overlap(own))
        refuse_gradient(own, count, options.zero_gradient && !gradient.is_writable);
}

// Words errors as a call with single buffers, or as parameters that are chosen at run time.
GRADSTEP_DEFINE void dense_parameter::refuse_gradient(extent const& given, std::size_t count, bool is_const) const {
    if (given.size != count && is_of_run_time())
        fail<size_error>({given.name}, {"has ", given.size, " elements"}, {count});
    if (given.size != count)
        fail<size_error>({given.name}, {"has ", given.size, " elements, parameter has ", count},
                         {"the same length for all buffers of a tensor"});
    if (is_const && is_of_run_time()) refuse_zero_gradient();
    if (given.is_missing()) fail<buffer_error>({given.name}, {"is null"}, {count, " elements of memory"});
    if (!is_const) require_apart(given);
    refuse_zero_gradient();
}

GRADSTEP_DEFINE void dense_parameter::require_apart(extent const& given) const {
    auto const found = memory_.overlap(given);
    if (!found && !extent::of("", options_.bfloat16_copy).overlaps(given)) return;
    char const* const values = is_of_run_time() ? "the parameter" : "parameter";
    char const* const own = !found ? "bfloat16_copy" : *found == 0 ? values : facts().slot_names[*found - 1];
    bool const is_given_first = !found || *found == 0 || is_of_run_time(); // as the buffers of a call follow each other
    fail<buffer_error>({is_given_first ? given.name : own}, {"overlaps ", is_given_first ? own : given.name},
                       {"separate memory for each buffer"});
}

GRADSTEP_DEFINE std::optional<std::size_t> dense_parameter::refused_nonfinite() const {
    if (options_.on_nonfinite == nonfinite::propagate) return {};
    std::size_t const found = find_nonfinite(0, gradient_.size);
    if (found == gradient_.size) return {};
    if (options_.on_nonfinite == nonfinite::skip) return found;
    if (is_of_run_time())
        fail<nonfinite_error>({"gradient"},
                              {"is not finite at element ", found, ", and on_nonfinite is raise: no step is taken"});
    fail<nonfinite_error>({"gradient[", found, "]"},
                          {"is not finite, and on_nonfinite is raise: the step is not taken"});
}

GRADSTEP_DEFINE compression_kernels* dense_parameter::compression() { return by().compression(); }

GRADSTEP_DEFINE void dense_parameter::next_step(step_options const& options, tensor_options const& own) {
    before_ = clock();
    by().next_step(options, own);
}

GRADSTEP_DEFINE void dense_parameter::advance(step_options const& options, tensor_options const& own) {
    next_step(options, own);
    if (!has_checks()) return;
    rollback_guard back([&] { withdraw(); });
    require_step();
    back.dismiss();
}

GRADSTEP_DEFINE void dense_parameter::add_memory(apart_check& to, bool zeroes) {
    to.add(memory_.values(), memory_.value_bytes(), true);
    to.add(gradient_.data, gradient_.size * facts().storage_bytes, zeroes);
    for (std::size_t i = 0; i != facts().slots; ++i) to.add(memory_.state(i), memory_.state_bytes(i), true);
    if (!options_.bfloat16_copy.empty())
        to.add(options_.bfloat16_copy.data(), options_.bfloat16_copy.size_bytes(), true);
}

GRADSTEP_DEFINE char const* dense_parameter::buffer_name(std::size_t i) const {
    if (i == 0) return is_of_run_time() ? "values" : "parameter";
    if (i == 1) return "gradient";
    return i == 2 + facts().slots ? "bfloat16_copy" : facts().slot_names[i - 2];
}

GRADSTEP_DEFINE void dense_parameter::zero_gradient() const {
    code().zero_memory(const_cast<void*>(gradient_.data), gradient_.size * facts().storage_bytes);
}

GRADSTEP_DEFINE void dense_parameter::run_whole(launch_batch& waiting) {
    erased_tensor const x = tensor(gradient_.data);
    if (!by().gather(waiting, x)) code().run_whole(x);
}

GRADSTEP_DEFINE void dense_parameter::run_alone() {
    erased_tensor const x = step_tensor();
    if (is_model_wise()) settle(settled(code().sums_of(x))); // a model of one parameter
    code().run_whole(x);
}

GRADSTEP_DEFINE void dense_parameter::ascend_alone(sam_options const& how, double scale, bool measures) {
    if (measures) measure_ascent(how, 0, size());
    else move_weights(how, scale, 0, size());
}

GRADSTEP_DEFINE void dense_parameter::begin_ascent() {
    if (!options_.bfloat16_copy.empty())
        fail<value_error>({"ascend"}, {"bfloat16_copy is set, and only the parameter moves"}, {"no copy"});
    ascent_.make_room(code(), size());
}

GRADSTEP_DEFINE void dense_parameter::weights_set() {
    require_trained("weights_set");
    code().weights_set(tensor(nullptr), clock().step);
}

GRADSTEP_DEFINE void dense_parameter::resume(gradstep::clock at, std::size_t loaded) {
    if (loaded < size()) code().keep_averages(tensor(nullptr), loaded, clock().step, at.step);
    by().seek(at);
}

GRADSTEP_DEFINE void dense_parameter::describe_state(state_visitor& to, bool decay) const {
    if (is_ascended_) refuse_ascended("save or load");
    kernels const& own = code();
    updater_facts const& of = own.facts();
    memory_access access;
    if (!own.memory().on_host)
        access = {&own,
                  [](void const* at, std::span<std::byte const> from, std::span<std::byte> into) {
                      static_cast<kernels const*>(at)->copy_to_host(from.data(), into.data(), from.size());
                  },
                  [](void const* at, std::span<std::byte const> from, std::span<std::byte> into) {
                      static_cast<kernels const*>(at)->copy_from_host(from.data(), into.data(), from.size());
                  }};
    to.policies(of.element, of.append_rule, by().written_policies(decay), clock(), access);
    memory_.describe(to, of, average_.is_applied() ? average_.trained() : memory_.values());
    describe_shape(to);
}

GRADSTEP_DEFINE void dense_parameter::put_average() {
    memory_block averages(code().memory(), memory_.value_bytes());
    read_average(false, averages.data());
    put_values(std::move(averages));
}

GRADSTEP_DEFINE void dense_parameter::put_values(memory_block averages) {
    if (!memory_.refers()) return average_.keep(memory_.exchange_values(std::move(averages)));
    // The application's memory must stay in place.
    memory_block trained(code().memory(), memory_.value_bytes());
    code().copy_memory(memory_.values(), trained.data(), trained.bytes());
    code().copy_memory(averages.data(), memory_.values(), averages.bytes());
    average_.keep(std::move(trained));
}

GRADSTEP_DEFINE row_lengths dense_parameter::row_lengths(char const* call) const {
    require_trained(call);
    if (memory_.refers()) refuse_rows_of_host(call);
    return row_lengths_of(call, options_.shape, size());
}

// The rows of a parameter after a change, in memory of their own.
class rows_of_dense final : public pending_rows {
public:
    rows_of_dense(dense_memory& memory, gradstep::shape& shape, dense_memory&& made, gradstep::shape const& then)
        : memory_(&memory), shape_(&shape), made_(std::move(made)), then_(then) {}
    GRADSTEP_DEFINE void commit() noexcept override {
        *memory_ = std::move(made_);
        *shape_ = then_;
    }

private:
    dense_memory* memory_;
    gradstep::shape* shape_;
    dense_memory made_;
    gradstep::shape then_;
};

GRADSTEP_DEFINE void dense_parameter::require_no_copy(row_order const& order) const {
    if (!options_.bfloat16_copy.empty() && order.moves_values())
        fail<value_error>({"parameter_options.bfloat16_copy"}, {"is set, and its memory does not follow the rows"},
                          {"none"});
}

GRADSTEP_DEFINE std::unique_ptr<pending_rows> dense_parameter::changed_rows(row_order const& order, void const* added,
                                                                            std::size_t) {
    require_no_copy(order);
    gradstep::shape const now = options_.shape, then = with_rows(now, order.after());
    std::size_t const width = now.is_known() ? now.cols : 1;
    dense_memory made(code(), order.after() * width, then);
    memory_.move_rows(code(), order, width, now, then, added, false, clock().step, id_, made);
    return std::make_unique<rows_of_dense>(memory_, options_.shape, std::move(made), then);
}

GRADSTEP_DEFINE void dense_parameter::require_trained(char const* call) const {
    if (average_.is_applied()) refuse_applied(call);
    if (is_ascended_) refuse_ascended(call);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
