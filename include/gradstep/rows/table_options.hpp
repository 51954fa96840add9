#pragma once
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/rows/batch.hpp>
#include <gradstep/rows/initial.hpp>

namespace gradstep {
/// Whether the steps before a row was added to a table apply to this row.
enum class new_rows {
    as_of_now,       ///< not at all: weight and state have their initial values
    since_the_start, ///< as pending steps, as for older rows: the new rows have caught up
};

/// The options of a table, besides its updater and its catch-up policy.
struct table_options {
    /// The values of rows before their first step: a number, `uniform`, `normal`, or values.
    initial_values initial = {};
    /// What an update does with a row that a batch contains several times. Integers have no mean.
    gradstep::duplicates duplicates = gradstep::duplicates::sum;
    /// Whether each row counts its own updates for the rule's bias corrections, instead of the
    /// table's steps. The first steps of adam with a row then have full size, whenever they happen.
    /// Needs 4 bytes per row, and every row of a batch prepares its own scalars. Not with `replay`,
    /// and not on a GPU.
    bool row_steps = false;
    /// Padding: updates and `bags` ignore this id wherever it appears, and it need not be a row.
    std::optional<std::int64_t> ignore_id = {};
    /// The number of steps that the history of exact and replay keeps, rounded up to a power of two
    /// (at least 4). It then stays constant, even if the table grows. 0: the number of rows, but at
    /// least 2^12 and at most 2^20, growing with the table. With elements of 16 bits, 0 means 2^20
    /// from the start. A row without updates is caught up, and so rounded to storage, at most once
    /// in half as many steps. For this, every step reads the stamps of 2 num_rows / max_history
    /// rows (at least one).
    std::int64_t max_history = 0;
    /// What an update does with a gradient row that contains NaN or infinity. With `propagate`, a
    /// NaN stays in its row for good. `skip` ignores it, as if its id were not in the batch
    /// (`gradients_left_out` counts them). `raise` throws a nonfinite_error that names it, before
    /// anything is written. Both read all gradients once more. Sums of finite gradients that
    /// overflow are not detected. Not on a GPU.
    nonfinite on_nonfinite = nonfinite::propagate;
    /// The largest norm of a row; 0 means no limit. After the row's step, w <- w * (max_norm / |w|)
    /// if |w| is larger. The norm is computed in double and the rest in the compute type, so that
    /// |w| is then max_norm up to rounding. Applies to the master copy if there is one. Not for
    /// stochastic elements and integers, and not on a GPU.
    double max_norm = 0;
    /// The table's id for stochastic rounding and noise: tables that are updated in the same step
    /// need different ids.
    std::uint64_t id = 0;

    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"max_history", &table_options::max_history, ranges::count},
                            hyperparameter{"on_nonfinite", &table_options::on_nonfinite},
                            hyperparameter{"max_norm", &table_options::max_norm, ranges::non_negative}};
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
// The number of steps that a history keeps. rounds_coarsely: a row that catches up in several
// rounds loses what is smaller than its storage can represent, 2^-9 or 2^-12 of it.
inline constexpr std::uint64_t least_history = 4, largest_history = std::uint64_t{1} << 30;
inline bool is_history_capacity(std::uint64_t steps) {
    return std::has_single_bit(steps) && steps >= least_history && steps <= largest_history;
}
inline std::uint64_t history_capacity(table_options const& options, std::uint64_t num_rows, bool rounds_coarsely) {
    constexpr std::uint64_t least = std::uint64_t{1} << 12, most = std::uint64_t{1} << 20;
    if (options.max_history == 0) return rounds_coarsely ? most : std::bit_ceil(std::clamp(num_rows, least, most));
    auto const asked = static_cast<std::uint64_t>(options.max_history);
    if (asked > largest_history)
        fail<value_error>({"table_options.max_history"}, {asked, " is out of range"}, {"at most ", largest_history});
    return std::bit_ceil(std::max(asked, least_history));
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
