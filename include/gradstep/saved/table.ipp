#pragma once
#include <gradstep/rows/detail/restoring.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Describes a table of `rows` rows, without its memory.
GRADSTEP_DEFINE saved_state shape_of_rows(table_core const& x, std::uint64_t rows, std::uint64_t history) {
    saved_state out;
    saved_state_builder to(out);
    x.kernels().describe(to);
    describe_rows(out, x.rows().columns(), rows, x.rows().facts().has_history(), history);
    return out;
}
// With the memory that it has.
GRADSTEP_DEFINE saved_state memory_of_rows(table_core const& x, row_progress& at) {
    saved_state out = shape_of_rows(x, x.num_rows(), at.history.size());
    for (std::size_t k = 0; k != x.segments(); ++k) add_segment(out, x.segment(k));
    if (x.rows().facts().has_history()) add_history(out, at);
    return out;
}

GRADSTEP_DEFINE saved_state state_of_rows(table_core const& x, char const* call, row_progress& at) {
    x.require_trained(call);
    at = x.rows().progress();
    saved_state out = memory_of_rows(x, at);
    out.own_policies = {&x.kernels(), [](void const* of, policy_visitor& to) {
                            static_cast<table_kernels const*>(of)->visit_policies(to);
                        }};
    if (x.rows().facts().uses_id) out.id = x.options().id;
    describe_progress(out, at, x.options().initial);
    return out;
}

GRADSTEP_DEFINE void load_rows(table_core& x, saved_source const& from, std::span<saved_tensor const> besides) {
    x.require_trained("load");
    saved_state const& saved = from.state();
    row_progress at = progress_of(saved);
    saved_tensor const* const history = saved.find("history");
    std::uint64_t const before = x.num_rows(), rows = counted("num_rows", at.num_rows, 0),
                        numbers = history == nullptr ? 0 : history->rows;
    x.rows().check_count(rows);
    saved_state own = shape_of_rows(x, rows, numbers);
    initial_values const initial = require_rows(from, own, besides, before);
    x.kernels().check_initial(initial, rows, x.width());
    x.rows().require_own_history(at, rows, numbers);
    auto const sweep = refresh_cursor::at(at.lap_row, at.lap_rows, rows, at.max_history);
    at.history.resize(static_cast<std::size_t>(numbers));
    read_history(from, at);
    auto resumed = x.rows().history_at(at, sweep);
    bool const has_history = x.rows().facts().has_history();
    if (x.rows().facts().has_stamps) require_saved_stamps(from, at, sweep, has_history);

    x.reserve(rows);
    rollback_guard growing([&] { x.set_rows(before); });
    x.set_rows(rows);
    read_into(from, memory_of_rows(x, at));
    growing.dismiss();
    x.rows().resume(at, rows, std::move(resumed));
    x.rows().options.initial = initial;
    if (saved.id) x.rows().options.id = *saved.id;
}

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
