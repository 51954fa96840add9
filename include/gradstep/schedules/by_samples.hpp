#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// A schedule whose t counts samples instead of steps: its `steps`, boundaries and ramps are
/// numbers of samples. This applies to everything inside; schedules around it count as before. A
/// schedule that restarts the clock of an inner one (`warmup`, `chain`) restarts steps only. To
/// count its ramp in samples too, put it inside: `by_samples{warmup{...}}`.
template <class Schedule> struct by_samples {
    Schedule inner;
    static constexpr auto hyperparameters = hyperparameter_list{hyperparameter{"inner", &by_samples::inner}};

    GRADSTEP_INLINE double operator()(clock now) const {
        now.step = now.samples;
        return inner(now);
    }
};
template <class Schedule> by_samples(Schedule) -> by_samples<Schedule>;
} // namespace gradstep
