#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/policy/describe.hpp>
#include <gradstep/rows/detail/refresh_cursor.hpp>
#include <gradstep/rows/detail/row_columns.hpp>
#include <gradstep/rows/detail/row_core.hpp>
#include <gradstep/rows/initial.hpp>
#include <gradstep/rows/row_progress.hpp>
#include <gradstep/saved/saved_state.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::inline GRADSTEP_ISA {
template <class Updater, class CatchUp> class table;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
// The tensors of a table: one for each column that it has, and the history.
void describe_rows(saved_state& to, row_columns columns, std::uint64_t rows, bool has_history, std::uint64_t history);
// Adds the memory of a segment, and of the history.
void add_segment(saved_state& to, row_columns segment);
void add_history(saved_state& to, row_progress& at);
// The progress of a run, and the initial values of rows that are added later.
void describe_progress(saved_state& to, row_progress& at, initial_values const& initial);
initial_values initial_of(saved_rows const& saved);

row_progress progress_of(saved_state const& saved);
// Throws value_error or size_error unless what was saved can become a table of this shape, which
// has `before` rows. Returns the initial values of rows that are added later.
initial_values require_rows(saved_source const& from, saved_state& own, std::span<saved_tensor const> besides,
                            std::uint64_t before);
void read_history(saved_source const& from, row_progress& at);
// Throws value_error for stamps that the history does not reach.
void require_saved_stamps(saved_source const& from, row_progress const& at, refresh_cursor const& sweep,
                          bool has_history);

template <class Updater, class CatchUp> struct state_access<table<Updater, CatchUp>> {
    using core = row_core<Updater, CatchUp>;

    static saved_state get(table<Updater, CatchUp> const& x, char const* call, row_progress& at) {
        x.require_trained(call);
        at = x.progress();
        saved_state out = of_segments(x, at);
        out.own_policies = {&x, [](void const* of, policy_visitor& to) {
                                auto const& core = static_cast<gradstep::table<Updater, CatchUp> const*>(of)->core();
                                core.updater.visit_policies(to);
                                visit_policy(to, core.catch_up_policy);
                            }};
        if constexpr (uses_id<Updater>) out.id = x.options().id;
        describe_progress(out, at, x.options().initial);
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
        row_progress at = progress_of(saved);
        saved_tensor const* const history = saved.find("history");
        std::uint64_t const before = x.num_rows(), rows = x.core().counted_rows(at.num_rows, 0),
                            numbers = history == nullptr ? 0 : history->rows;
        saved_state own = of_shape(x, rows, numbers);
        initial_values const initial = require_rows(from, own, besides, before);
        check_initial<typename Updater::traits::storage>(initial, rows, x.width());
        x.core().require_own_history(at, rows, numbers);
        auto const sweep = refresh_cursor::at(at.lap_row, at.lap_rows, rows, at.max_history);
        at.history.resize(static_cast<std::size_t>(numbers));
        read_history(from, at);
        auto resumed = x.core().history_at(at, sweep);
        if constexpr (core::has_stamps) require_saved_stamps(from, at, sweep, core::has_history);

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
    // Describes a table of `rows` rows, without its memory.
    static saved_state of_shape(table<Updater, CatchUp> const& x, std::uint64_t rows, std::uint64_t history) {
        saved_state out;
        saved_state_builder to(out);
        visit_policies(to, x.optimizer());
        describe_rows(out, x.shape().columns(), rows, core::has_history, history);
        return out;
    }
    // With the memory that it has.
    static saved_state of_segments(table<Updater, CatchUp> const& x, row_progress& at) {
        saved_state out = of_shape(x, x.num_rows(), at.history.size());
        for (std::size_t k = 0; k != x.segments(); ++k) add_segment(out, x.shape().columns(x.store().segment(k)));
        if constexpr (core::has_history) add_history(out, at);
        return out;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/saved/table.ipp>
#endif
