#pragma once

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME parameter_rows::parameter_rows(any_updater& of, std::uint64_t rows, std::size_t width)
    : core(std::make_unique<any_table_kernels>(any_table_kernels::referring_to(), of), rows,
           std::max<std::size_t>(width, 1), {}),
      stamps(core.kept.stamps ? static_cast<std::size_t>(rows) : 0), columns_(core.columns()) {}

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
