#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Natural exponential decay: the rate falls by a factor of exp(-decay) every `steps` steps,
/// smoothly or in a staircase.
///
///     rate * exp(-decay * t / steps)           staircase:  rate * exp(-decay * floor(t / steps))
///
/// t counts steps from 0. Ranges: rate, decay >= 0, steps >= 1.
struct natural_exp {
    double rate = missing, decay = missing;
    std::int64_t steps = missing_count;
    bool staircase = false;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &natural_exp::rate, ranges::non_negative},
                            hyperparameter{"decay", &natural_exp::decay, ranges::non_negative},
                            hyperparameter{"steps", &natural_exp::steps, ranges::positive_count},
                            hyperparameter{"staircase", &natural_exp::staircase}};

    GRADSTEP_INLINE double operator()(clock now) const {
        double const x = detail::periods(now.step, steps, staircase);
        return rate * std::exp(-decay * x);
    }
};
} // namespace gradstep
