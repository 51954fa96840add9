#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include <gradstep/core/members.hpp>
#include <gradstep/sparse/aggregate.hpp>
#include <gradstep/sparse/initial.hpp>

namespace gradstep {

/// What a table does beyond its updater and its catch-up policy.
struct table_options {
    /// The values of rows before their first step: a number, `uniform`, `normal`, or values.
    initial_values initial = {};
    /// What a batch does that names a row several times.
    gradstep::duplicates duplicates = gradstep::duplicates::sum;
    /// Counts t of the rule's bias corrections for every row by itself, by its touches, instead of by the table's steps:
    /// adam then takes its first steps with a row at full size, whenever they come. 4 bytes a row; every row of a batch
    /// prepares its own scalars (about 0.1 microseconds). Not with `replay`, and not on a GPU.
    bool row_steps = false;
    /// Padding: this id is skipped wherever it appears, and need not be a row.
    std::optional<std::int64_t> ignore_id = {};
    /// For how many steps the history of exact and replay is kept, from the start on, rounded up to a power of two (at least 4); 0: the number of rows,
    /// but at least 2^12 and at most 2^20. So many steps apart, a rolling sweep catches up rows that nobody touched:
    /// num_rows / max_history of them in a step.
    std::int64_t max_history = 0;
    /// The name of the table in stochastic rounding: tables that are updated in the same step need different ones.
    std::uint64_t id = 0;

    static constexpr auto members = member_list{member{"max_history", &table_options::max_history, ranges::count}};
};

inline namespace GRADSTEP_ISA {
namespace detail {

inline std::uint64_t history_capacity(table_options const& options, std::uint64_t num_rows) {
    constexpr std::uint64_t least = std::uint64_t{1} << 12, most = std::uint64_t{1} << 20, largest = most << 10;
    if (options.max_history == 0) return std::bit_ceil(std::clamp(num_rows, least, most));
    auto const asked = static_cast<std::uint64_t>(options.max_history);
    if (asked > largest)
        detail::fail<value_error>("table_options.max_history = " + text(asked) + ": must be at most " + text(largest));
    return std::bit_ceil(std::max<std::uint64_t>(asked, 4));
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
