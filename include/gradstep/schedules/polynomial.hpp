#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// From `rate` to `end` along a power, then constantly `end`.
///
///     (rate - end) * (1 - min(t, steps) / steps)^power + end
///
/// t counts steps from 0. Ranges: rate, end, power >= 0; steps >= 1. With end = 0 it is Caffe's
/// `poly`. Keras and optax call it polynomial decay.
struct polynomial {
    double rate = missing;
    std::int64_t steps = missing_count;
    double end = 0, power = 1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &polynomial::rate, ranges::non_negative},
                            hyperparameter{"steps", &polynomial::steps, ranges::positive_count},
                            hyperparameter{"end", &polynomial::end, ranges::non_negative},
                            hyperparameter{"power", &polynomial::power, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const {
        double const left = detail::ratio(steps - std::min(now.step, steps), steps);
        return std::fma(rate - end, std::pow(left, power), end);
    }
};
} // namespace gradstep
