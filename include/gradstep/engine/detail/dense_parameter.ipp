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
    if (is_locked_for_ascent_) refuse_locked("descend");
    if (!is_ascended_) refuse_descend();
    is_ascended_ = false; // for the checks of the step
    rollback_guard still_ascended([&] { is_ascended_ = reads_kept_; });
    take_gradient(gradient, options, "descend");
    return take_step(options, true);
}

GRADSTEP_DEFINE update_result dense_parameter::take_step(step_options const& options, bool goes_back) {
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

GRADSTEP_DEFINE void dense_parameter::go_back() {
    restore_weights(0, size());
    is_ascended_ = reads_kept_ = false;
}

GRADSTEP_DEFINE void dense_parameter::restore() {
    if (is_locked_for_ascent_) refuse_locked("restore");
    if (is_ascended_) return go_back();
    if (!average_.is_applied()) refuse_restore();
    if (!memory_.refers()) return static_cast<void>(memory_.exchange_values(average_.take()));
    if (average_.bytes() != memory_.value_bytes())
        fail<size_error>({"restore"},
                         {"there are ", size(), " elements, and there were ", average_.bytes() / facts().storage_bytes,
                          " when the average was applied"},
                         {"as many"});
    code().copy_memory(average_.trained(), memory_.values(), memory_.value_bytes());
    average_.take();
}

GRADSTEP_DEFINE void dense_parameter::take_gradient(given_gradient const& gradient, step_options const& options,
                                                    char const* call) {
    detail::check(options);
    require_trained(call);
    require_gradient(gradient, size(), options);
    gradient_ = gradient;
}

GRADSTEP_DEFINE void dense_parameter::require_gradient(given_gradient const& gradient, std::size_t count,
                                                       step_options const& options) const {
    extent const own{"gradient", gradient.data, gradient.size, gradient.size * facts().storage_bytes};
    if (gradient.size != count) fail<size_error>({"gradient"}, {"has ", gradient.size, " elements"}, {count});
    if (options.zero_gradient && !gradient.is_writable) refuse_zero_gradient();
    if (own.is_missing()) fail<buffer_error>({"gradient"}, {"is null"}, {count, " elements of memory"});
    require_apart(own);
}

GRADSTEP_DEFINE void dense_parameter::require_apart(extent const& given) const {
    auto const found = memory_.overlap(given);
    if (!found) return;
    fail<buffer_error>({given.name}, {"overlaps ", *found == 0 ? "the parameter" : facts().slot_names[*found - 1]},
                       {"separate memory for each buffer"});
}

GRADSTEP_DEFINE std::optional<std::size_t> dense_parameter::refused_nonfinite() const {
    if (options_.on_nonfinite == nonfinite::propagate) return {};
    std::size_t const found = find_nonfinite(0, gradient_.size);
    if (found == gradient_.size) return {};
    if (options_.on_nonfinite == nonfinite::skip) return found;
    fail<nonfinite_error>({"gradient"},
                          {"is not finite at element ", found, ", and on_nonfinite is raise: no step is taken"});
}

GRADSTEP_DEFINE void dense_parameter::add_memory(apart_check& to, bool zeroes) {
    to.add(memory_.values(), memory_.value_bytes(), true);
    to.add(gradient_.data, gradient_.size * facts().storage_bytes, zeroes);
    for (std::size_t i = 0; i != facts().slots; ++i) to.add(memory_.state(i), memory_.state_bytes(i), true);
}

GRADSTEP_DEFINE char const* dense_parameter::buffer_name(std::size_t i) const {
    return i == 0 ? "values" : i == 1 ? "gradient" : facts().slot_names[i - 2];
}

GRADSTEP_DEFINE void dense_parameter::zero_gradient() const {
    code().zero_memory(const_cast<void*>(gradient_.data), gradient_.size * facts().storage_bytes);
}

GRADSTEP_DEFINE void dense_parameter::begin_ascent() { ascent_.make_room(code(), size()); }

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

GRADSTEP_DEFINE void dense_parameter::require_trained(char const* call) const {
    if (average_.is_applied()) refuse_applied(call);
    if (is_ascended_) refuse_ascended(call);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
