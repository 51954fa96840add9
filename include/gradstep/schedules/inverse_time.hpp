#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Inverse time decay: the rate falls like 1 / t, smoothly or in a staircase.
///
///     rate / (1 + decay * t / steps)           staircase:  rate / (1 + decay * floor(t / steps))
///
/// t counts steps from 0. Ranges: rate, decay >= 0, steps >= 1.
struct inverse_time {
    double rate = missing, decay = missing;
    std::int64_t steps = missing_count;
    bool staircase = false;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &inverse_time::rate, ranges::non_negative},
                            hyperparameter{"decay", &inverse_time::decay, ranges::non_negative},
                            hyperparameter{"steps", &inverse_time::steps, ranges::positive_count},
                            hyperparameter{"staircase", &inverse_time::staircase}};

    GRADSTEP_INLINE double operator()(clock now) const {
        double const x = detail::periods(now.step, steps, staircase);
        return rate / std::fma(decay, x, 1);
    }
};
} // namespace gradstep
