#pragma once
#include <cmath>
#include <cstdint>
#include <string>

#include <gradstep/core/anneal.hpp>
#include <gradstep/core/clock.hpp>
#include <gradstep/core/hyperparameters.hpp>

namespace gradstep {

/// The way from `start` to the schedule that follows: in equal differences (`linear`), in equal ratios (`exponential`), or
/// at `start` to the end (`constant`).
enum class ramp { linear, exponential, constant };
template <> inline constexpr std::array enumerators<ramp>{"linear", "exponential", "constant"};

/// A ramp of `steps` steps before another schedule S, here `after`:
///
///     t < steps:    linear       start + (S(0) - start) * t / steps
///                   exponential  start * (S(0) / start)^(t / steps)
///                   constant     start
///     t >= steps:   S(t - steps)
///
/// With `in_place` the ramp runs over the first steps of S instead of before them: it aims at S(steps) and goes on
/// with S(t). t counts steps from 0, so that `start = 0` begins with a rate of 0. Samples and epochs are handed on
/// as they are: before a schedule by_samples the ramp aims at what that has reached; by_samples{warmup{...}} counts
/// all in samples. Ranges: steps >= 0; start >= 0, and > 0 for an exponential ramp.
template <class Schedule> struct warmup {
    Schedule after;
    std::int64_t steps = missing_count;
    double start = 0;
    ramp shape = ramp::linear;
    bool in_place = false;
    static constexpr auto members =
        member_list{member{"after", &warmup::after}, member{"steps", &warmup::steps, ranges::count},
                    member{"start", &warmup::start, ranges::non_negative}, member{"shape", &warmup::shape},
                    member{"in_place", &warmup::in_place}};

    GRADSTEP_INLINE double operator()(clock now) const {
        if (now.step >= steps) return after(shifted(now, in_place ? 0 : steps));
        double const target = after(shifted(now, now.step - (in_place ? steps : 0)));
        double const x = detail::ratio(now.step, steps);
        switch (shape) {
        case ramp::exponential:
            return start * std::pow(target / start, x);
        case ramp::constant:
            return start;
        default:
            return std::fma(target - start, x, start);
        }
    }

    GRADSTEP_INLINE void check() const {
        if (shape == ramp::exponential && !(start > 0))
            detail::fail<value_error>("warmup.start = " + detail::text(start) +
                                      ": must be > 0 for an exponential ramp");
    }

private:
    GRADSTEP_INLINE static clock shifted(clock now, std::int64_t by) {
        now.step -= by;
        return now;
    }
};
template <class Schedule, class... Rest> warmup(Schedule, Rest...) -> warmup<Schedule>;

} // namespace gradstep
