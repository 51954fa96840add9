#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// A schedule times a factor: factor * inner(t). Range: factor >= 0.
template <class Schedule> struct scaled {
    Schedule inner;
    double factor = missing;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"inner", &scaled::inner}, hyperparameter{"factor", &scaled::factor, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const {
        auto const rate = static_cast<double>(inner(now));
        return factor == 0 && !std::isnan(rate) ? 0 : factor * rate; // also 0 times infinity
    }
};
template <class Schedule, class... Rest> scaled(Schedule, Rest...) -> scaled<Schedule>;
} // namespace gradstep
