#pragma once
#include <gradstep/rows/detail/table_core.hpp>
#include <gradstep/saved/saved_state.hpp>

namespace gradstep::inline GRADSTEP_ISA {
template <class Updater, class CatchUp> class table;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
// The state of a table, and the progress of its run, which must exist as long as the state is used.
saved_state state_of_rows(table_core const& x, char const* call, row_progress& at);
// Loads it. `besides`: what the file has that is another's to read.
void load_rows(table_core& x, saved_source const& from, std::span<saved_tensor const> besides = {});

template <class Updater, class CatchUp> struct state_access<table<Updater, CatchUp>> {
    static saved_state get(table<Updater, CatchUp> const& x, char const* call, row_progress& at) {
        return state_of_rows(x.core(), call, at);
    }
    static bool load(table<Updater, CatchUp>& x, saved_source const& from, bool) {
        load_rows(x.core(), from);
        return false;
    }
};

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
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/saved/table.ipp>
#endif
