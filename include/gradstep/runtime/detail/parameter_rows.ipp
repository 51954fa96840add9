#pragma once

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// The policies whose numbers a history depends on.
GRADSTEP_DEFINE_RUNTIME std::string recorded_policies(any_updater const& of) {
    policy_text out;
    visit_parts(of.policies(), out);
    visit_value(out, of.policies().catch_up);
    return out.take();
}

GRADSTEP_DEFINE_RUNTIME parameter_rows::parameter_rows(any_updater& of, bool catches_up, std::uint64_t rows,
                                                       std::size_t width)
    : core(std::make_unique<any_table_kernels>(any_table_kernels::referring_to{catches_up}, of), rows,
           std::max<std::size_t>(width, 1), {}),
      stamps(core.kept.stamps ? static_cast<std::size_t>(rows) : 0), columns_(core.columns()) {
    if (core.facts().has_history()) policies_ = recorded_policies(of);
}

GRADSTEP_DEFINE_RUNTIME void parameter_rows::require_same_policies(any_updater const& of) const {
    if (core.facts().has_history() ? recorded_policies(of) == policies_ : of.facts().is_no_op) return;
    fail<value_error>({"optimizer"},
                      {"was replaced, and rows that catch up have a history of steps with the policies before"},
                      {"the same policies with another schedule, or \"catch_up\": \"touch_only\""});
}

GRADSTEP_DEFINE_RUNTIME void parameter_rows::require_same_steps(gradstep::clock const& now) const {
    if (!core.facts().has_history() || stamps.empty() || now.step == step) return;
    fail<sequence_error>(
        {"optimizer"},
        {"has a clock at step ", now.step, ", and the history of rows that catch up ends at step ", step},
        {"a clock at step ", step});
}

GRADSTEP_DEFINE_RUNTIME void parameter_rows::begin(bool sweeps) {
    is_behind = is_behind || core.facts().has_history();
    step = core.kernels().clock().step;
    core.begin(place, sweeps);
}

GRADSTEP_DEFINE_RUNTIME parameter_rows&
parameter_rows::in(any_updater& of, std::optional<executor_reference> const& threads, dense_memory const& memory) {
    static_cast<any_table_kernels&>(core.kernels()).refer_to(of, threads);
    auto const rows = static_cast<std::size_t>(core.num_rows());
    auto const put = [&](row_column& x, void* data) {
        x.data = static_cast<std::byte*>(data);
        x.stride = x.row_elements;
        x.size = rows * x.row_elements;
    };
    put(columns_[0], memory.values());
    std::size_t const slots = core.facts().slots;
    for (std::size_t i = 0; i < slots; ++i) put(columns_[1 + i], memory.state(i));
    if (core.kept.stamps) put(columns_[1 + slots], stamps.data());
    all_ = columns_;
    place = {core.width(), {&all_, 1}};
    return *this;
}

GRADSTEP_DEFINE_RUNTIME void parameter_rows::replace(std::vector<std::uint32_t>&& other) noexcept {
    stamps = std::move(other);
    core.renumber(stamps.size());
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
