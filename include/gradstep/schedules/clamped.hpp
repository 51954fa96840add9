#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// A schedule limited to a range: min(max(inner(t), low), high). Ranges: 0 <= low <= high.
template <class Schedule> struct clamped {
    Schedule inner;
    double low = missing, high = missing;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"inner", &clamped::inner}, hyperparameter{"low", &clamped::low, ranges::non_negative},
        hyperparameter{"high", &clamped::high, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const { return std::clamp(double(inner(now)), low, high); }

    GRADSTEP_INLINE void check() const {
        if (low > high) detail::fail<value_error>({"clamped.low"}, {low, " is out of range"}, {"<= high = ", high});
    }
};
template <class Schedule, class... Rest> clamped(Schedule, Rest...) -> clamped<Schedule>;
} // namespace gradstep
