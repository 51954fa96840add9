#pragma once
#include <gradstep/core/clock.hpp>
#include <gradstep/core/hyperparameters.hpp>

namespace gradstep {

/// Another schedule whose t counts samples instead of steps: its `steps`, boundaries and ramps are numbers of samples.
/// Whatever it wraps counts so; what wraps it counts as before. A schedule that restarts the clock of what is inside
/// (`warmup`, `chain`) restarts only steps: put it inside, `by_samples{warmup{...}}`, to count its ramp in samples too.
template <class Schedule> struct by_samples {
    Schedule inner;
    static constexpr auto members = member_list{member{"inner", &by_samples::inner}};

    GRADSTEP_INLINE double operator()(clock now) const {
        now.step = now.samples;
        return inner(now);
    }
};
template <class Schedule> by_samples(Schedule) -> by_samples<Schedule>;

} // namespace gradstep
