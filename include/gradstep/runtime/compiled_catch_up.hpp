#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gradstep/core/concepts.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/sparse/row_progress.hpp>

// What is compiled for rows that catch up on the steps that they missed, beside the updater that then takes a step with them:
// the history of a rule and a regularizer, and what it does to a row. Which rows, when, and with which threads is
// detail::stamped_rows', which is compiled once.
namespace gradstep::runtime {

/// A tensor of rows, and the step that each of them is caught up to, modulo 2^32.
struct erased_rows {
    erased_tensor all;
    std::size_t width;
    std::uint32_t* stamps;
};
/// Some of the rows: ids[first] to ids[last - 1], or, where there are no ids, row `first` to row `last - 1`.
struct chosen_rows {
    std::int64_t const* ids;
    std::size_t first, last;

    /// The number of row k.
    std::uint64_t operator[](std::size_t k) const { return ids == nullptr ? k : static_cast<std::uint64_t>(ids[k]); }
};

/// The history of a table of a combination, and what rows make of it (sparse/history.hpp).
class compiled_catch_up {
public:
    virtual ~compiled_catch_up() = default;
    /// Another one with the same steps.
    virtual std::unique_ptr<compiled_catch_up> copy() const = 0;
    /// What it keeps of a step.
    virtual history_facts const& facts() const noexcept = 0;
    /// Throws value_error for a step that cannot be kept.
    virtual void require_kept(step_info) const = 0;
    /// Keeps a step: rows that are away miss it from now on.
    virtual void record(step_info) = 0;
    /// Catches up rows, values, state and stamps, to `step`; those that missed no more than `spares` steps are left alone.
    virtual void catch_up(erased_rows const&, chosen_rows, std::int64_t step, std::uint32_t spares) const noexcept = 0;
    /// Copies of the values that they would have, one row after the other.
    virtual void read(erased_rows const&, chosen_rows, std::int64_t step, void* out) const noexcept = 0;
    /// The numbers that a checkpoint has of the steps up to this one.
    virtual std::vector<double> saved(std::int64_t step) const = 0;
    /// Another one, with the steps of a checkpoint. Throws value_error for numbers that no run can have saved.
    virtual std::unique_ptr<compiled_catch_up> resumed(row_progress const&) const = 0;
};

/// One combination of what is compiled: places in the lists of config/registry.hpp, and what makes a history of `capacity` steps
/// for rows of `width` elements.
struct compiled_catch_up_entry {
    std::size_t rule, average, regularizer, catch_up;
    std::unique_ptr<compiled_catch_up> (*make)(combination const&, void const* catch_up_policy, std::uint64_t capacity,
                                               std::size_t width);
};

} // namespace gradstep::runtime
