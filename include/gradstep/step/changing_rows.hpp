#pragma once
#include <gradstep/memory/detail/row_order.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// The functions that change the rows of a parameter while it trains. A row is an element of the
/// first dimension of the parameter's shape, in row-major order; without a shape, it is one
/// element. The values, the state, the master copy and the averages of a row move with it:
///
///     points.append(new_values);    // new rows
///     points.keep(mask);            // removes the rows whose mask is false
///     points.permute(order);        // row i becomes what was row order[i]
///     points.reset(rows);           // the state of these rows begins anew
///
/// Each element of the state moves with its value. A factored rule (adafactor) moves the number of
/// a row with the row, and keeps the numbers of columns. A row-wise rule keeps its number, which
/// belongs to the whole parameter. State in 8 bits (block8) is decoded, and rounded to the scale of
/// its new block. The clock does not change: bias corrections count the steps of the parameter,
/// also for new rows. A gs::table has the same functions, and with `row_steps` it counts the steps
/// of each row.
///
/// A call allocates the memory of all rows before it changes anything. If it throws, nothing has
/// changed. Slices and spans of the parameter are then stale: make them again. All calls throw
/// value_error for a column-major shape, and sequence_error if averages are applied, between
/// `ascend` and `descend`, and while a step is pending.
template <class Parameter> class changing_rows {
public:
    /// Adds rows with these values behind the others, in row-major order. Their state begins as
    /// `initialize` begins it, and averages account for the steps before. Throws size_error if the
    /// number of values is not a multiple of the width of a row, and buffer_error for memory that
    /// is null.
    template <class Values> void append(Values const& values) {
        detail::row_lengths const now = self().row_lengths("append");
        auto const added = self().added_values(values);
        self().commit_rows(self().rearranged(detail::appended_rows(now, added.size()), added));
    }
    /// Keeps the rows whose element of the mask is true, in their order, and removes the others.
    /// The mask is any range of values that convert to bool. Throws size_error unless it has an
    /// element for each row.
    template <class Mask> void keep(Mask const& mask) {
        std::size_t const rows = self().row_lengths("keep").rows;
        self().commit_rows(self().rearranged(detail::kept_rows(rows, detail::mask_of(mask)), {}));
    }
    /// Puts the rows in another order: row i becomes what was row order[i]. Throws size_error or
    /// value_error unless the order contains each row once.
    template <class Order> void permute(Order const& order) {
        std::size_t const rows = self().row_lengths("permute").rows;
        self().commit_rows(self().rearranged(detail::permuted_rows(rows, detail::row_numbers(order)), {}));
    }
    /// Lets the state of these rows begin anew, as `initialize` begins it. The values stay. Throws
    /// value_error for a row out of range.
    template <class Rows> void reset(Rows const& rows) {
        std::size_t const now = self().row_lengths("reset").rows;
        self().commit_rows(self().rearranged(detail::reset_rows(now, detail::row_numbers(rows)), {}));
    }

private:
    Parameter& self() { return static_cast<Parameter&>(*this); }
};
} // namespace gradstep::inline GRADSTEP_ABI
