#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/describe.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/state_visitor.hpp>
#include <gradstep/sparse/initial.hpp>
#include <gradstep/sparse/refresh_cursor.hpp>
#include <gradstep/sparse/restoring.hpp>
#include <gradstep/sparse/row_core.hpp>
#include <gradstep/sparse/row_progress.hpp>
#include <gradstep/state/saved_state.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
template <class Updater, class CatchUp> class table;
} // namespace GRADSTEP_ISA

namespace detail {
inline namespace GRADSTEP_ABI {

// What later rows begin with.
template <class Initial> void take_initial(saved_rows& out, Initial const& x) {
    using from_which = saved_rows::distribution;
    if constexpr (std::is_same_v<Initial, uniform>) {
        out.initial = from_which::uniform, out.first = x.low, out.second = x.high, out.seed = x.seed;
    } else if constexpr (std::is_same_v<Initial, normal>) {
        out.initial = from_which::normal, out.first = x.mean, out.second = x.deviation, out.seed = x.seed;
    } else if constexpr (std::is_same_v<Initial, double>) {
        out.first = x; // rows that come after a container's are zero
    }
}
inline initial_values initial_of(saved_rows const& from) {
    using from_which = saved_rows::distribution;
    if (from.initial == from_which::uniform) return uniform{from.first, from.second, from.seed};
    if (from.initial == from_which::normal) return normal{from.first, from.second, from.seed};
    return from.first;
}

template <class Updater, class CatchUp> struct state_access<table<Updater, CatchUp>> {
    using core = row_core<Updater, CatchUp>;
    using storage = typename Updater::traits::storage;
    using state = typename Updater::traits::state;

    static saved_state get(table<Updater, CatchUp> const& x, char const* call, row_progress& at) {
        x.require_trained(call);
        at = x.progress();
        saved_state out = of_segments(x, at);
        out.own_policies = {&x, [](void const* of, policy_visitor& to) {
                                auto const& table = *static_cast<gradstep::table<Updater, CatchUp> const*>(of);
                                table.optimizer().visit_policies(to);
                                visit_policy(to, table.core().catch_up_policy);
                            }};
        if constexpr (Updater::traits::is_stochastic) out.id = x.options().id;
        std::vector<double> history = std::move(at.history); // a tensor: not to be copied
        out.rows.emplace().progress = at;
        at.history = std::move(history);
        x.options().initial.visit([&](auto const& initial) { take_initial(*out.rows, initial); });
        return out;
    }
    static bool load(table<Updater, CatchUp>& x, saved_source const& from, bool) {
        load_rows(x, from, {});
        return false;
    }
    // `besides`: what the file has that is another's to read.
    static void load_rows(table<Updater, CatchUp>& x, saved_source const& from, std::span<saved_tensor const> besides) {
        x.require_trained("load");
        saved_state const& saved = from.state();
        row_progress at = saved.rows ? saved.rows->progress : row_progress{};
        at.clock = saved.clock;
        saved_tensor const* const history = saved.find("history");
        std::uint64_t const before = x.num_rows(), rows = core::shape_type::counted_rows(at.num_rows, x.width(), 0),
                            numbers = history == nullptr ? 0 : history->rows;
        saved_state own = of_shape(x, rows, numbers);
        own.rows.emplace();
        own.tensors.insert(own.tensors.end(), besides.begin(), besides.end());
        require_same(from, own);
        if (rows < before)
            fail<size_error>({from.where(), ": has ", rows, " rows: must have at least the ", before,
                              " of the table, which does not shrink; create it with fewer, load, and grow it"});
        initial_values const initial = initial_of(*saved.rows);
        check_initial<storage>(initial, rows, x.width());
        x.core().require_own_history(at, rows, numbers);
        auto const refresh_cursor = detail::refresh_cursor::at(at.lap_row, at.lap_rows, rows, at.max_history);
        at.history.resize(static_cast<std::size_t>(numbers));
        if (numbers != 0) from.read("history", 0, std::as_writable_bytes(std::span(at.history)));
        auto resumed = x.core().history_at(at, refresh_cursor);
        if constexpr (core::has_stamps) {
            std::vector<std::uint32_t> stamps(static_cast<std::size_t>(std::min<std::uint64_t>(rows, 1 << 16)));
            for (std::uint64_t first = 0; first < rows; first += stamps.size()) {
                stamps.resize(static_cast<std::size_t>(std::min<std::uint64_t>(stamps.size(), rows - first)));
                from.read("stamps", 4 * first, std::as_writable_bytes(std::span(stamps)));
                require_stamps(first, stamps, 1, at, refresh_cursor, core::has_history);
            }
        }

        x.core().with_memory(rows, [&] { x.store().reserve(rows); });
        rollback_guard growing([&] { x.store().set_rows(before); });
        x.store().set_rows(rows);
        read_into(from, of_segments(x, at));
        growing.dismiss();
        x.core().resume(at, rows, std::move(resumed));
        x.core().options.initial = initial;
        if (saved.id) x.core().options.id = *saved.id;
    }

private:
    // Of a table of so many rows, without its memory.
    static saved_state of_shape(table<Updater, CatchUp> const& x, std::uint64_t rows, std::uint64_t history) {
        saved_state out;
        saved_state_of to(out);
        visit_policies(to, x.optimizer());
        out.name = "values";
        out.add("", dtype_of<storage>(), sizeof(storage), rows, x.width());
        for (std::size_t i = 0; i != Updater::slots; ++i)
            out.add(Updater::state_names[i], dtype_of<state>(), sizeof(state), rows,
                    Updater::is_row_slot(i) ? 0 : x.width());
        if (core::has_stamps) out.add("stamps", "U32", 4, rows);
        if (x.shape().has_touches) out.add("touches", "U32", 4, rows);
        if (x.shape().keyed.keys) out.add("keys", "U64", 8, rows);
        if (x.shape().keyed.last_touches) out.add("last_touches", "U32", 4, rows);
        if (x.shape().keyed.touch_counts) out.add("touch_counts", "U32", 4, rows);
        if (core::has_history) out.add("history", "F64", 8, history).is_of_host = true;
        return out;
    }
    // With the memory that it has.
    static saved_state of_segments(table<Updater, CatchUp> const& x, row_progress& at) {
        saved_state out = of_shape(x, x.num_rows(), at.history.size());
        for (std::size_t k = 0; k != x.segments(); ++k) {
            row_memory<Updater> const& rows = x.store().segment(k);
            std::size_t next = 0;
            auto const add = [&](auto span) { out.tensors[next++].pieces.push_back(std::as_writable_bytes(span)); };
            add(rows.values);
            for (auto const& slot : rows.state) add(slot);
            if (core::has_stamps) add(rows.stamps);
            if (x.shape().has_touches) add(rows.touches);
            if (x.shape().keyed.keys) add(rows.keys);
            if (x.shape().keyed.last_touches) add(rows.last_touches);
            if (x.shape().keyed.touch_counts) add(rows.touch_counts);
        }
        if (core::has_history) out.tensors.back().pieces = {std::as_writable_bytes(std::span(at.history))};
        return out;
    }
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
