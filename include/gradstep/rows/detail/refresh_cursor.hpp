#pragma once
#include <algorithm>

#include <gradstep/base/error.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The rolling sweep over a table whose history keeps `capacity` steps. Every step visits a few rows
// in addition to its own, and updates those that were inactive for long, so that no last step
// becomes older than the history.
//
// Invariant: now - last_step <= capacity - 2 whenever a step visits a row, one less than a step can
// read while its own entry is written. Each lap visits once every row that existed when the lap
// began, within steps() = capacity / 2 - 1 steps. A row that was updated within the last steps()
// steps is skipped: the next lap visits it before it is twice as old. New rows join at the next
// lap. A row that is never updated is therefore written at most once in steps() steps, for any
// number of rows.
class refresh_cursor {
public:
    explicit refresh_cursor(std::uint64_t capacity) : steps_(steps_of(capacity)) {}

    static std::uint64_t steps_of(std::uint64_t capacity) { return capacity > 4 ? capacity / 2 - 1 : 1; }
    // The length of a lap in steps. Rows up to this age are skipped.
    std::uint64_t steps() const { return steps_; }
    // The current row, and the number of rows of this lap.
    std::uint64_t row() const { return row_; }
    std::uint64_t rows() const { return rows_; }

    // The rows [first, second) that the next step visits.
    std::pair<std::uint64_t, std::uint64_t> due(std::uint64_t num_rows) const {
        if (row_ == rows_) return {0, std::min(pace(num_rows), num_rows)};
        return {row_, std::min(row_ + pace(rows_), rows_)};
    }
    // Records that the step has visited its rows.
    void advance(std::uint64_t num_rows) {
        auto const [first, last] = due(num_rows);
        if (row_ == rows_) rows_ = num_rows;
        row_ = last;
    }
    // Removes the rows from `num_rows` on.
    void shrink(std::uint64_t num_rows) {
        rows_ = std::min(rows_, num_rows);
        row_ = std::min(row_, rows_);
    }
    // Begins a new lap with the next step. Rows must not be older than steps().
    void restart() { row_ = rows_ = 0; }
    // The history now keeps more steps.
    void extend(std::uint64_t capacity) { steps_ = steps_of(capacity); }

    // A lap at row `row` of `rows`, for a history of `capacity` steps. Throws value_error for
    // impossible numbers.
    static refresh_cursor at(std::uint64_t row, std::uint64_t rows, std::uint64_t num_rows, std::uint64_t capacity) {
        if (row > rows || rows > num_rows)
            fail<value_error>({"row_progress"}, {"lap_row = ", row, ", lap_rows = ", rows},
                              {"at most lap_rows, and at most num_rows = ", num_rows});
        refresh_cursor out(capacity);
        out.row_ = row;
        out.rows_ = rows;
        return out;
    }
    // In how many steps row `id` is visited again; 1 is the next step.
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
} // namespace gradstep::detail::inline GRADSTEP_ABI
