#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The shape of a warm-up from `start` to the schedule after it: equal differences (`linear`),
/// equal ratios (`exponential`), or constantly `start` (`constant`).
enum class ramp { linear, exponential, constant };
template <> inline constexpr std::array enumerators<ramp>{"linear", "exponential", "constant"};

/// A warm-up of `steps` steps before another schedule S (`after`):
///
///     t < steps:    linear       start + (S(0) - start) * t / steps
///                   exponential  start * (S(0) / start)^(t / steps)
///                   constant     start
///     t >= steps:   S(t - steps)
///
/// With `in_place`, the warm-up replaces the first steps of S: its target is S(steps), and S(t)
/// follows. t counts steps from 0, so that `start = 0` begins with a rate of 0. Samples and epochs
/// are passed on unchanged: before a schedule `by_samples`, the target is the rate at the current
/// number of samples. by_samples{warmup{...}} counts everything in samples.
/// Ranges: steps >= 0; start >= 0, and > 0 for an exponential warm-up.
template <class Schedule> struct warmup {
    Schedule after;
    std::int64_t steps = missing_count;
    double start = 0;
    ramp shape = ramp::linear;
    bool in_place = false;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"after", &warmup::after}, hyperparameter{"steps", &warmup::steps, ranges::count},
        hyperparameter{"start", &warmup::start, ranges::non_negative}, hyperparameter{"shape", &warmup::shape},
        hyperparameter{"in_place", &warmup::in_place}};

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
            detail::fail<value_error>({"warmup.start"}, {start, " is out of range"}, {"> 0 for an exponential ramp"});
    }

private:
    GRADSTEP_INLINE static clock shifted(clock now, std::int64_t by) {
        now.step -= by;
        return now;
    }
};
template <class Schedule, class... Rest> warmup(Schedule, Rest...) -> warmup<Schedule>;
} // namespace gradstep
