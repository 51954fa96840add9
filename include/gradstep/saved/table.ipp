#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void describe_rows(saved_state& to, row_columns columns, std::uint64_t rows, bool has_history,
                                   std::uint64_t history) {
    to.name = "values";
    for (row_column const& x : columns)
        if (x.exists())
            to.add(&x == columns.data() ? "" : x.name, x.dtype, x.element_bytes, rows,
                   x.is_number ? 0 : x.row_elements);
    if (has_history) to.add<double>("history", history).is_of_host = true;
}

GRADSTEP_DEFINE void add_segment(saved_state& to, row_columns segment) {
    std::size_t next = 0;
    for (row_column const& x : segment)
        if (x.exists()) to.tensors[next++].chunks.push_back({x.data, x.size * x.element_bytes});
}

GRADSTEP_DEFINE void add_history(saved_state& to, row_progress& at) {
    to.tensors.back().chunks = {std::as_writable_bytes(std::span(at.history))};
}

GRADSTEP_DEFINE void describe_progress(saved_state& to, row_progress& at, initial_values const& initial) {
    std::vector<double> history = std::move(at.history); // a tensor: not to be copied
    saved_rows& out = to.rows.emplace();
    out.progress = at;
    at.history = std::move(history);
    initial.visit([&]<class Initial>(Initial const& x) {
        using from_which = saved_rows::distribution;
        if constexpr (std::is_same_v<Initial, uniform>) {
            out.initial = from_which::uniform, out.first = x.low, out.second = x.high, out.seed = x.seed;
        } else if constexpr (std::is_same_v<Initial, normal>) {
            out.initial = from_which::normal, out.first = x.mean, out.second = x.deviation, out.seed = x.seed;
        } else if constexpr (std::is_same_v<Initial, double>) {
            out.first = x; // rows that come after a container's are zero
        }
    });
}

GRADSTEP_DEFINE initial_values initial_of(saved_rows const& saved) {
    using from_which = saved_rows::distribution;
    if (saved.initial == from_which::uniform) return uniform{saved.first, saved.second, saved.seed};
    if (saved.initial == from_which::normal) return normal{saved.first, saved.second, saved.seed};
    return saved.first;
}

GRADSTEP_DEFINE row_progress progress_of(saved_state const& saved) {
    row_progress out = saved.rows ? saved.rows->progress : row_progress{};
    out.clock = saved.clock;
    return out;
}

GRADSTEP_DEFINE initial_values require_rows(saved_source const& from, saved_state& own,
                                            std::span<saved_tensor const> besides, std::uint64_t before) {
    own.rows.emplace();
    own.tensors.insert(own.tensors.end(), besides.begin(), besides.end());
    require_same(from, own);
    saved_rows const& saved = *from.state().rows;
    if (saved.progress.num_rows < before)
        fail<size_error>(
            {from.where()}, {"has ", saved.progress.num_rows, " rows"},
            {"at least the ", before, " of the table, which does not shrink; create it with fewer, load, and grow it"});
    return initial_of(saved);
}

GRADSTEP_DEFINE void read_history(saved_source const& from, row_progress& at) {
    if (!at.history.empty()) from.read("history", 0, std::as_writable_bytes(std::span(at.history)));
}

GRADSTEP_DEFINE void require_saved_stamps(saved_source const& from, row_progress const& at, refresh_cursor const& sweep,
                                          bool has_history) {
    constexpr std::uint64_t most = 1 << 16;
    std::uint64_t const rows = at.num_rows;
    std::vector<std::uint32_t> stamps(static_cast<std::size_t>(std::min(rows, most)));
    for (std::uint64_t first = 0; first < rows; first += stamps.size()) {
        stamps.resize(static_cast<std::size_t>(std::min<std::uint64_t>(stamps.size(), rows - first)));
        from.read("stamps", 4 * first, std::as_writable_bytes(std::span(stamps)));
        require_stamps(first, stamps, 1, at, sweep, has_history);
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
