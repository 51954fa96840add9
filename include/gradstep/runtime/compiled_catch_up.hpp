#pragma once
#include <gradstep/policy/concepts.hpp>
#include <gradstep/rows/row_progress.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

// The compiled part of catching up, next to the updater that then applies the step: the history of
// a rule and a regularizer, and its effect on a row. detail::stamped_rows, which is compiled once,
// chooses the rows, the time and the threads.
namespace gradstep::runtime {
/// A tensor with rows, and the step to which each row has caught up, modulo 2^32.
struct erased_rows {
    erased_tensor all;
    std::size_t width;
    std::uint32_t* last_steps;
};
/// A range of the rows: ids[first] to ids[last - 1]. If ids is null, the rows are first to
/// last - 1.
struct chosen_rows {
    std::int64_t const* ids;
    std::size_t first, last;

    /// The number of row k.
    std::uint64_t operator[](std::size_t k) const { return ids == nullptr ? k : static_cast<std::uint64_t>(ids[k]); }
};

/// The history of a table for a combination, and its effect on rows (rows/detail/history.hpp).
class compiled_catch_up {
public:
    virtual ~compiled_catch_up() = default;
    /// Returns a copy with the same steps.
    virtual std::unique_ptr<compiled_catch_up> copy() const = 0;
    /// The numbers that it keeps for each step.
    virtual history_facts const& facts() const noexcept = 0;
    /// Whether its rows can catch up if numbers of the rule (`of_rule`), or only other numbers,
    /// follow schedules.
    virtual bool follows_schedules(bool of_rule) const noexcept = 0;
    /// Replaces the numbers of the policies for the next `record`.
    virtual void change(combination const&) = 0;
    /// Throws value_error if it cannot keep this step.
    virtual void require_kept(erased_step) const = 0;
    /// Records a step: from now on, inactive rows miss it.
    virtual void record(erased_step) = 0;
    /// Catches up rows (values, state and stamps) to `step`. Rows with at most `skip_up_to` pending
    /// steps are skipped.
    virtual void catch_up(erased_rows const&, chosen_rows, std::int64_t step,
                          std::uint32_t skip_up_to) const noexcept = 0;
    /// Copies the values that the rows have after catching up to `step`, one row after another.
    virtual void read(erased_rows const&, chosen_rows, std::int64_t step, void* out) const noexcept = 0;
    /// Returns the numbers of the steps up to this one, for a checkpoint.
    virtual std::vector<double> saved(std::int64_t step) const = 0;
    /// Returns a history with the steps of a checkpoint. Throws value_error for numbers that no run
    /// can have saved.
    virtual std::unique_ptr<compiled_catch_up> resumed(row_progress const&) const = 0;
};

/// One compiled combination: indices in the lists of configuration/registry.hpp, and a function
/// that makes a history of `capacity` steps for rows of `width` elements.
struct compiled_catch_up_entry {
    std::size_t rule, average, regularizer, catch_up;
    std::unique_ptr<compiled_catch_up> (*make)(combination const&, void const* catch_up_policy, std::uint64_t capacity,
                                               std::size_t width);
    // The same for a table, whose calls use these threads; and a function that replaces its
    // numbers.
    std::unique_ptr<detail::table_kernels> (*make_table)(combination const&, void const* catch_up_policy,
                                                         detail::executor_reference& threads);
    void (*change_table)(detail::table_kernels&, combination const&);
    // Makes a call of its kernels for several threads; null if they cannot update its rows.
    std::unique_ptr<detail::concurrent_call> (*make_concurrent)(detail::table_kernels const&);
};
} // namespace gradstep::runtime
