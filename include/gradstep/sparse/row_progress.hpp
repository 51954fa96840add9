#pragma once
#include <cstdint>
#include <vector>

#include <gradstep/core/clock.hpp>

namespace gradstep {

/// What the numbers of a history mean.
enum class history_kind {
    none,     ///< there are none: rows that are away stand still
    factors,  ///< of `exact`: two running numbers, L and D
    products, ///< of `exact` with a linear rule: the matrix of each step
    rates,    ///< of `replay`: the learning rate of each step
};

/// Everything of a row_updater that a checkpoint needs beside the rows' memory: with both a run resumes bit for bit,
/// without a flush. Plain numbers, in the order of their names. Who is given them refuses what cannot be its own: another
/// number of rows, another kind of history, numbers that are too few or too many, a sweep that is nowhere, and rows whose
/// stamps the history does not reach.
struct row_progress {
    gradstep::clock clock;
    std::uint64_t num_rows = 0;
    history_kind kind = history_kind::none;
    /// Steps that the history keeps: a power of two. It grows with the rows; a row_updater that is restored keeps as many.
    std::uint64_t max_history = 0;
    /// The row that the rolling sweep has come to, of so many in this lap.
    std::uint64_t lap_row = 0, lap_rows = 0;
    /// The learning rate of the last step.
    double rate = 0;
    /// What the kept steps did to rows without gradient, `row_updater::history_numbers` for each, oldest first.
    std::vector<double> history;
};

} // namespace gradstep
