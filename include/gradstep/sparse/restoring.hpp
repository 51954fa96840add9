#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include <gradstep/core/error.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/sparse/lap.hpp>
#include <gradstep/sparse/row_progress.hpp>
#include <gradstep/sparse/table_options.hpp>

// The checks of a checkpoint of rows, before anything is changed. They do not depend on the
// policies' types.
namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// Throws value_error or size_error unless the numbers, and a history of so many, are those of a table of so many rows whose
// history is of this kind. The numbers of the history come later; counts of the clock are checked by who seeks it.
void require_own_history(row_progress const& from, std::uint64_t rows, std::uint64_t history_size,
                         history_facts const& own);
void require_finite_history(row_progress const& from);

// Throws value_error for a row that is caught up to a step that is still to come, or to one that the history will have lost
// when the sweep comes to the row: of rows from `first` on, `stride` apart; returns the row after them.
std::uint64_t require_stamps(std::uint64_t first, std::span<std::uint32_t const> stamps, std::size_t stride,
                             row_progress const& from, lap const& at, bool has_history);

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/sparse/restoring.ipp>
#endif
