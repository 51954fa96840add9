#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include <gradstep/core/error.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// The rolling sweep of a table whose history keeps `capacity` steps: every step catches up a few rows besides its own, so
// that no stamp grows older than the history.
//
// No stamp may be more than capacity - 1 steps old, one less on a device, where a step may still read the oldest entry
// while its own is written: in every lap of capacity - 2 steps each row is caught up once. The rows of the lap that step
// `step` catches up are those before `until(step)`.
class lap {
public:
    explicit lap(std::uint64_t capacity) : steps_(capacity > 2 ? capacity - 2 : 0) {}

    // The step at which it began, and the row that it has come to.
    std::int64_t start() const { return start_; }
    std::uint64_t row() const { return row_; }

    // The rows [first, second) that step `step` catches up.
    std::pair<std::uint64_t, std::uint64_t> due(std::int64_t step, std::uint64_t num_rows) const {
        return {row_, until(step, num_rows)};
    }
    // Step `step` has caught them up.
    void advance(std::int64_t step, std::uint64_t num_rows) {
        row_ = until(step, num_rows);
        if (static_cast<std::uint64_t>(step - start_) < steps_) return;
        row_ = 0;
        start_ = step;
    }

    // Throws value_error unless a lap can stand there at step `step`.
    void check(std::int64_t start, std::uint64_t row, std::int64_t step, std::uint64_t num_rows) const {
        bool const began = start <= step && start >= 0 && std::cmp_less(step - start, steps_);
        if (row > num_rows || !began)
            fail<value_error>("row_progress: lap_row = " + text(row) + ", lap_start = " + text(start) +
                              ": must be in [0, " + text(num_rows) + "], and less than " + text(steps_) +
                              " steps before step " + text(step) + ": num_rows and max_history must be what they were");
    }
    void restore(std::int64_t start, std::uint64_t row) {
        start_ = start;
        row_ = row;
    }

private:
    std::uint64_t until(std::int64_t step, std::uint64_t num_rows) const {
        __extension__ using wide = unsigned __int128;
        auto const done = static_cast<std::uint64_t>(step - start_);
        return done >= steps_ ? num_rows : static_cast<std::uint64_t>((wide(num_rows) * done + steps_ - 1) / steps_);
    }

    std::uint64_t steps_;
    std::int64_t start_ = 0;
    std::uint64_t row_ = 0;
};

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
