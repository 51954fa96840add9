#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include <gradstep/core/error.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// The rolling sweep of a table whose history keeps `capacity` steps: every step looks at a few rows besides its own, and
// catches up those that have been away for long, so that no stamp grows older than the history.
//
// A lap looks once at every row that was there as it began, in at most steps() = capacity / 2 - 1 steps. A row that was
// caught up within the last steps() steps is left alone: it is looked at again before it is twice that old, as are rows by
// which the table grows, from the next lap on. So no stamp is ever more than capacity - 2 steps old when a step looks at it,
// one less than a step may read while its own entry is written; and a row that nobody touches is written once in steps()
// steps at most, however many rows there are.
class lap {
public:
    explicit lap(std::uint64_t capacity) : steps_(steps_of(capacity)) {}

    static std::uint64_t steps_of(std::uint64_t capacity) { return capacity > 4 ? capacity / 2 - 1 : 1; }
    // Steps of a lap, and how old a row is that is left alone.
    std::uint64_t steps() const { return steps_; }
    // The row that it has come to, and the rows of the lap.
    std::uint64_t row() const { return row_; }
    std::uint64_t rows() const { return rows_; }

    // The rows [first, second) at which the next step looks.
    std::pair<std::uint64_t, std::uint64_t> due(std::uint64_t num_rows) const {
        if (row_ == rows_) return {0, std::min(pace(num_rows), num_rows)};
        return {row_, std::min(row_ + pace(rows_), rows_)};
    }
    // It has.
    void advance(std::uint64_t num_rows) {
        auto const [first, last] = due(num_rows);
        if (row_ == rows_) rows_ = num_rows;
        row_ = last;
    }
    // The rows from `num_rows` on are gone.
    void shrink(std::uint64_t num_rows) {
        rows_ = std::min(rows_, num_rows);
        row_ = std::min(row_, rows_);
    }
    // The history keeps more steps.
    void extend(std::uint64_t capacity) { steps_ = steps_of(capacity); }

    // The lap in its `row`-th row of `rows`, of a history of `capacity` steps. Throws value_error for what cannot be.
    static lap at(std::uint64_t row, std::uint64_t rows, std::uint64_t num_rows, std::uint64_t capacity) {
        if (row > rows || rows > num_rows)
            fail<value_error>("row_progress: lap_row = " + text(row) + ", lap_rows = " + text(rows) +
                              ": must be at most lap_rows, and at most num_rows = " + text(num_rows));
        lap out(capacity);
        out.row_ = row;
        out.rows_ = rows;
        return out;
    }
    // How many steps from now on a step looks at row `id` again; the next step is 1.
    std::uint64_t steps_until(std::uint64_t id, std::uint64_t num_rows) const {
        if (row_ <= id && id < rows_) return (id - row_) / pace(rows_) + 1;
        std::uint64_t const rest = row_ < rows_ ? (rows_ - row_ - 1) / pace(rows_) + 1 : 0;
        return rest + id / pace(num_rows) + 1;
    }

private:
    std::uint64_t pace(std::uint64_t rows) const { return rows == 0 ? 1 : (rows - 1) / steps_ + 1; }

    std::uint64_t steps_;
    std::uint64_t row_ = 0, rows_ = 0;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
