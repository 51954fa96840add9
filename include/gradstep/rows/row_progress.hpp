#pragma once
#include <cstddef>
#include <vector>

#include <gradstep/policy/clock.hpp>

namespace gradstep {
/// The meaning of the numbers of a history.
enum class history_kind {
    none,     ///< no numbers: inactive rows do not change
    factors,  ///< for `exact`: two running numbers, L and D
    products, ///< for `exact` with a linear rule: the matrix of each step
    rates,    ///< for `replay`: the learning rate of each step
};

/// The numbers that a history keeps for each step, as doubles in a checkpoint and as bytes in
/// memory. `saved_steps(t, capacity)` is the number of steps for which it has numbers at step t.
struct history_facts {
    history_kind kind = history_kind::none;
    std::size_t numbers_per_step = 0, bytes_per_step = 0;
    std::uint64_t (*saved_steps)(std::int64_t, std::uint64_t) = [](std::int64_t, std::uint64_t) {
        return std::uint64_t{0};
    };

    /// Whether it keeps anything.
    constexpr bool any() const { return numbers_per_step != 0; }
    /// Returns the facts of one of the types of rows/detail/history.hpp.
    template <class History> static constexpr history_facts of() {
        return {History::kind, History::numbers_per_step, History::bytes_per_step, &History::saved_steps};
    }
};

/// The part of a row_updater that a checkpoint needs in addition to the rows' memory. With both, a
/// run resumes bit for bit, without a flush. Its members are plain numbers. `restore` rejects
/// numbers that do not belong to the table: another number of rows or kind of history, too few or
/// too many numbers, and an impossible sweep. It also rejects rows with stamps that are older than
/// the history.
struct row_progress {
    gradstep::clock clock;
    std::uint64_t num_rows = 0;
    history_kind kind = history_kind::none;
    /// The number of steps that the history keeps: a power of two. It grows with the rows; a
    /// restored row_updater keeps the same number.
    std::uint64_t max_history = 0;
    /// The current row of the rolling sweep, and the number of rows in this lap.
    std::uint64_t lap_row = 0, lap_rows = 0;
    /// The learning rate of the last step.
    double rate = 0;
    /// The effect of these steps on rows without gradient: `row_updater::history_numbers` numbers
    /// for each step, oldest first.
    std::vector<double> history;
};
} // namespace gradstep
