#pragma once
#include <gradstep/rows/detail/refresh_cursor.hpp>
#include <gradstep/rows/row_progress.hpp>
#include <gradstep/rows/table_options.hpp>

// The checks of a checkpoint of rows, before anything is changed. They do not depend on the
// policies' types.
namespace gradstep::detail::inline GRADSTEP_ABI {
// Throws value_error or size_error unless the numbers, and a history of this size, belong to a
// table with this number of rows and this kind of history. The history's numbers are checked later;
// seek checks the counts of the clock.
void require_own_history(row_progress const& from, std::uint64_t rows, std::uint64_t history_size,
                         history_facts const& own);
void require_finite_history(row_progress const& from);

// Throws value_error for a row that has caught up to a future step, or to a step that the history
// will have lost when the sweep visits the row. Checks rows from `first` on, whose stamps are
// `stride` apart. Returns the row after the last one.
std::uint64_t require_stamps(std::uint64_t first, std::span<std::uint32_t const> stamps, std::size_t stride,
                             row_progress const& from, refresh_cursor const& at, bool has_history);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/rows/detail/restoring.ipp>
#endif
