#pragma once
#include <gradstep/rows/detail/table_core.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// The functions that table and any_table have alike (`Table`).
template <class Table> class numbered_rows {
public:
    /// Restores the trained values, bit for bit. Throws sequence_error if no average is applied.
    void restore() { core_.restore(); }
    /// Whether averages replace the values.
    bool average_is_applied() const { return core_.average_is_applied(); }
    /// Throws sequence_error, for the function `call`, if averages replace the values.
    void require_trained(char const* call) const { core_.require_trained(call); }

    /// Applies the pending steps of every row, in parallel. Call it before an export or a dense
    /// read; a checkpoint needs no flush.
    void flush() { core_.flush(); }

    /// Adds rows, so that the table has `num_rows` rows in total. New rows have initial values and
    /// the state of step 0. By default they are up to date and earlier steps do not apply to them.
    /// With new_rows::since_the_start all earlier steps apply to them (row_updater::initialize).
    /// Existing rows do not move and nothing is copied. Only a table with less than 4 MiB of values
    /// can move. Throws value_error if there are more rows already, or if the history does not
    /// contain all steps. Throws memory_error if memory does not suffice. The table is then
    /// unchanged.
    template <std::integral Rows> void grow(Rows num_rows, new_rows begin = new_rows::as_of_now) {
        require_trained("grow");
        std::uint64_t const rows = detail::counted("num_rows", num_rows, core_.num_rows());
        core_.rows().check_count(rows);
        core_.grow(rows, begin);
    }
    /// Keeps the rows whose element of the mask is true, in their order, and removes the others.
    /// Values, state, stamps and touches of a row move with it: pending steps stay pending, and row
    /// numbers change. The mask is any range of values that convert to bool.
    ///
    /// Rows move in place, and rows that you add later use the memory of removed rows. With exact
    /// and replay, rows with more than `max_row_age()` pending steps catch up first. Throws
    /// size_error, and the table is unchanged, unless the mask has an element for each row.
    template <class Mask> void keep(Mask const& mask) requires(Table::on_host) {
        require_trained("keep");
        core_.rearrange(detail::kept_rows(static_cast<std::size_t>(num_rows()), detail::mask_of(mask)));
    }
    /// Puts the rows in another order, as `keep` moves them: row i becomes what was row order[i].
    /// Throws size_error or value_error, and the table is unchanged, unless the order contains each
    /// row once.
    template <class Order> void permute(Order const& order) requires(Table::on_host) {
        require_trained("permute");
        core_.rearrange(detail::permuted_rows(static_cast<std::size_t>(num_rows()), detail::row_numbers(order)));
    }

    /// Sets the clock to the progress of a run, for example of another system whose rows you have
    /// set. Throws value_error for a negative count, and sequence_error if rows have a history of
    /// steps (exact, replay): load a checkpoint instead.
    void seek(gradstep::clock const& at) { core_.rows().seek(at); }
    /// The number of rows, `num_rows()`; the elements of a row, `width()`; the `clock()`; and
    /// the `options()`.
    std::uint64_t num_rows() const { return core_.num_rows(); }
    std::size_t width() const { return core_.width(); }
    gradstep::clock clock() const { return core_.clock(); }
    table_options const& options() const { return core_.options(); }
    /// The number of skipped gradient rows, as in row_updater.
    std::uint64_t gradients_left_out() const { return core_.rows().left_out(); }

    /// @cond
    /// The rows, without checks, for `striped`, `keyed_table` and checkpoints.
    detail::table_core& core() { return core_; }
    detail::table_core const& core() const { return core_; }
    /// @endcond

protected:
    template <class... Arguments>
    explicit numbered_rows(std::unique_ptr<detail::table_kernels> kernels, Arguments const&... arguments)
        : core_(std::move(kernels), arguments...) {}

    detail::table_core core_;
};
} // namespace gradstep::inline GRADSTEP_ABI
