#include <limits>

#include <gradstep/core/extent.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE clock clock_before(clock now, step_options const& options, member_options const& own) {
    detail::check(options);
    detail::check(own);
    if (options.epoch) now.epoch = *options.epoch;
    constexpr auto end = std::numeric_limits<std::int64_t>::max();
    if (now.step == end || now.samples > end - options.samples)
        detail::fail<value_error>({"clock"},
                                  {"step = ", now.step, ", samples = ", now.samples, " cannot advance by 1 step and ",
                                   options.samples, " samples"},
                                  {"counts <= ", end});
    return now;
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

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
