#pragma once
#include <gradstep/core/clock.hpp>
#include <gradstep/core/members.hpp>

namespace gradstep {

/// Another schedule times a number: factor * inner(t). Range: factor >= 0.
template <class Schedule> struct scaled {
    Schedule inner;
    double factor = missing;
    static constexpr auto members =
        std::tuple{member{"inner", &scaled::inner}, member{"factor", &scaled::factor, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const { return factor * inner(now); }
};
template <class Schedule, class... Rest> scaled(Schedule, Rest...) -> scaled<Schedule>;

} // namespace gradstep
