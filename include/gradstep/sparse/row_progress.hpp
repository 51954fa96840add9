#pragma once
#include <cstddef>
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

/// What a history keeps of a step: doubles in a checkpoint, and bytes in memory; `saved_steps(t, capacity)` is of how many steps
/// it has numbers at step t.
struct history_facts {
    history_kind kind;
    std::size_t numbers_per_step, bytes_per_step;
    std::uint64_t (*saved_steps)(std::int64_t, std::uint64_t);

    /// Whether anything is kept.
    constexpr bool any() const { return numbers_per_step != 0; }
    /// Of one of the types of sparse/history.hpp.
    template <class History> static constexpr history_facts of() {
        return {History::kind, History::numbers_per_step, History::bytes_per_step, &History::saved_steps};
    }
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
