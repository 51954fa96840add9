#pragma once
#include <gradstep/memory/detail/extent.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void check_next(std::int64_t step, std::int64_t samples, step_options const& options,
                                tensor_options const& own) {
    detail::check(options);
    detail::check(own);
    constexpr auto end = std::numeric_limits<std::int64_t>::max();
    if (step == end || samples > end - options.samples)
        detail::fail<value_error>(
            {"clock"},
            {"step = ", step, ", samples = ", samples, " cannot advance by 1 step and ", options.samples, " samples"},
            {"counts <= ", end});
}
GRADSTEP_DEFINE void check_rate(double rate) {
    if (!ranges::non_negative.contains(rate))
        detail::fail<value_error>({"the schedule's rate"}, {rate, " is out of range"}, {ranges::non_negative.text});
}
GRADSTEP_DEFINE void check_counts(clock at) {
    if (at.step < 0 || at.samples < 0 || at.epoch < 0)
        detail::fail<value_error>({"clock"}, {"step = ", at.step, ", samples = ", at.samples, ", epoch = ", at.epoch},
                                  {"counts >= 0"});
}
GRADSTEP_DEFINE void check_clock(clock const& at, std::span<char const* const> state_names, bool is_signed) {
    range const allowed = is_signed ? ranges::finite : ranges::non_negative;
    check_counts(at);
    bool any = at.step == 0 || state_names.empty();
    std::string all;
    for (std::size_t i = 0; i != state_names.size(); ++i) {
        if (!allowed.contains(at.state[i]))
            detail::fail<value_error>({"clock.state: ", state_names[i]}, {at.state[i], " is out of range"},
                                      {allowed.text});
        any = any || at.state[i] != 0;
        all.append(i == 0 ? "" : ", ").append(state_names[i]);
    }
    if (!any)
        detail::fail<value_error>({"clock"}, {"step = ", at.step, " comes without state, and the rule keeps ", all},
                                  {"the whole clock of the run, as clock() returned it"});
}
GRADSTEP_DEFINE void check_own(std::size_t tensor, double decay, std::optional<std::int64_t> step) {
    if (!ranges::non_negative.contains(decay))
        detail::fail<value_error>({buffer_name(tensor, "decay")}, {decay, " is out of range"},
                                  {ranges::non_negative.text});
    if (step && *step < 1)
        detail::fail<value_error>({buffer_name(tensor, "step")}, {*step, " is out of range"}, {">= 1"});
}

GRADSTEP_DEFINE void refuse_decay(std::size_t tensor) {
    detail::fail<value_error>({buffer_name(tensor, "slice.decay")},
                              {"is true, and the step was prepared without decay"}, {"false"});
}
GRADSTEP_DEFINE void refuse_own_number(std::size_t tensor, std::int64_t step) {
    detail::fail<value_error>({buffer_name(tensor, "step")},
                              {step, " is given, and the rule keeps numbers of all steps of the updater"},
                              {"none; use an updater for each group of tensors that began together"});
}
GRADSTEP_DEFINE void refuse_missing_loss() {
    detail::fail<value_error>({"step_options.loss"}, {"is missing, and the rule computes its step size from it"},
                              {"the loss whose gradient the step gets"});
}
GRADSTEP_DEFINE void refuse_settled(std::int64_t step) {
    detail::fail<sequence_error>(
        {"step ", step}, {"its sums are settled, or the updater has prepared another step, and the rule is model-wise"},
        {"one call with all tensors of the model after each next_step"});
}
GRADSTEP_DEFINE void refuse_rate_scale(std::size_t tensor, double rate_scale) {
    detail::fail<value_error>({buffer_name(tensor, "slice.rate_scale")}, {rate_scale, " is out of range"},
                              {ranges::non_negative.text});
}
GRADSTEP_DEFINE void refuse_copy(std::size_t tensor, char const* why) {
    detail::fail<value_error>({buffer_name(tensor, "slice.bfloat16_copy")}, {"is set, and ", why}, {"empty"});
}
GRADSTEP_DEFINE void refuse_fraction(char const* name, double x, double largest) {
    detail::fail<value_error>({name}, {x, " is out of range"},
                              {"a whole number below ", largest, " where the element is an integer"});
}
GRADSTEP_DEFINE void refuse_magnitude(char const* name, double x, double largest) {
    detail::fail<value_error>({name}, {x, " is out of range"},
                              {"at most ", largest, ", the largest number of the element's arithmetic"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
