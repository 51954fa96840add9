#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Exponential decay: the rate is multiplied by `decay` every `steps` steps, smoothly or in a
/// staircase.
///
///     rate * decay^(t / steps)                 staircase:  rate * decay^floor(t / steps)
///
/// t counts steps from 0. A rate of 0 is 0 at every step. Ranges: rate >= 0, decay > 0, steps >= 1.
struct exponential {
    double rate = missing, decay = missing;
    std::int64_t steps = missing_count;
    bool staircase = false;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &exponential::rate, ranges::non_negative},
                            hyperparameter{"decay", &exponential::decay, ranges::positive},
                            hyperparameter{"steps", &exponential::steps, ranges::positive_count},
                            hyperparameter{"staircase", &exponential::staircase}};

    GRADSTEP_INLINE double operator()(clock now) const {
        if (rate == 0) return 0; // also if a decay above 1 has an infinite power
        return rate * std::pow(decay, detail::periods(now.step, steps, staircase));
    }
};
} // namespace gradstep
