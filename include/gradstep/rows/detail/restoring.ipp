#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void require_own_history(row_progress const& from, std::uint64_t rows, std::uint64_t history_size,
                                         history_facts const& own) {
    constexpr char const* kinds[] = {"none", "factors", "products", "rates"};
    if (from.num_rows != rows)
        fail<size_error>({"row_progress.num_rows"}, {from.num_rows, " is out of range"},
                         {rows, ", the rows of the table; grow it first"});
    auto const kind = static_cast<std::size_t>(from.kind);
    if (from.kind != own.kind)
        fail<value_error>({"row_progress.kind"}, {kind < std::size(kinds) ? kinds[kind] : "unknown", " is not allowed"},
                          {kinds[static_cast<std::size_t>(own.kind)],
                           ", which the catch-up policy keeps with this rule and regularizer"});
    bool const counts = own.any() ? is_history_capacity(from.max_history) : from.max_history == 1;
    if (!counts)
        fail<value_error>({"row_progress.max_history"}, {from.max_history, " is out of range"},
                          {own.any() ? "a power of two from 4 to 2^30" : "1, since nothing is kept"});
    std::uint64_t const numbers = own.numbers_per_step * own.saved_steps(from.clock.step, from.max_history);
    if (history_size != numbers)
        fail<size_error>({"row_progress.history"}, {"has ", history_size, " numbers"},
                         {numbers, ", as saved at step ", from.clock.step, " with max_history = ", from.max_history});
    if (!ranges::non_negative.contains(from.rate))
        fail<value_error>({"row_progress.rate"}, {from.rate, " is out of range"}, {ranges::non_negative.text});
}

GRADSTEP_DEFINE void require_finite_history(row_progress const& from) {
    for (double const x : from.history)
        if (!ranges::finite.contains(x))
            fail<value_error>({"row_progress.history"}, {"has the number ", x}, {ranges::finite.text});
}

GRADSTEP_DEFINE std::uint64_t require_stamps(std::uint64_t first, std::span<std::uint32_t const> stamps,
                                             std::size_t stride, row_progress const& from, refresh_cursor const& at,
                                             bool has_history) {
    auto const now = static_cast<std::uint64_t>(from.clock.step);
    for (std::size_t i = 0; i < stamps.size(); i += stride, ++first) {
        std::uint32_t const age = static_cast<std::uint32_t>(now) - stamps[i];
        bool const known =
            age <= now && (!has_history || age + at.steps_until(first, from.num_rows) < from.max_history);
        if (!known)
            fail<value_error>({"stamps[", first, "]"}, {stamps[i], " is out of range"},
                              {"at most ", static_cast<std::uint32_t>(now), ", the low half of the step, and not ",
                               "older than the steps that the history keeps: the rows' memory and ",
                               "row_progress must be of one moment"});
    }
    return first;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
