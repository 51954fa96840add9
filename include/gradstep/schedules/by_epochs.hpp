#pragma once
#include <gradstep/core/clock.hpp>
#include <gradstep/core/hyperparameters.hpp>

namespace gradstep {

/// Another schedule whose t counts epochs instead of steps: its `steps`, boundaries and ramps are numbers of epochs.
/// Whatever it wraps counts so; what wraps it counts as before. A schedule that restarts the clock of what is inside
/// (`warmup`, `chain`) restarts only steps: put it inside, `by_epochs{warmup{...}}`, to count its ramp in epochs too.
template <class Schedule> struct by_epochs {
    Schedule inner;
    static constexpr auto members = member_list{member{"inner", &by_epochs::inner}};

    GRADSTEP_INLINE double operator()(clock now) const {
        now.step = now.epoch;
        return inner(now);
    }
};
template <class Schedule> by_epochs(Schedule) -> by_epochs<Schedule>;

} // namespace gradstep
