#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// A schedule whose t counts epochs instead of steps: its `steps`, boundaries and ramps are numbers
/// of epochs. This applies to everything inside; schedules around it count as before. A schedule
/// that restarts the clock of an inner one (`warmup`, `chain`) restarts steps only. To count its
/// ramp in epochs too, put it inside: `by_epochs{warmup{...}}`.
template <class Schedule> struct by_epochs {
    Schedule inner;
    static constexpr auto hyperparameters = hyperparameter_list{hyperparameter{"inner", &by_epochs::inner}};

    GRADSTEP_INLINE double operator()(clock now) const {
        now.step = now.epoch;
        return inner(now);
    }
};
template <class Schedule> by_epochs(Schedule) -> by_epochs<Schedule>;
} // namespace gradstep
