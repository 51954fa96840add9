#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The one-cycle schedule: from `start` up to `rate`, then down to `end`, far below `start`. Smith
/// & Topin 2018, arXiv:1708.07120; torch's form with two phases:
///
///     start = rate / start_divisor, end = start / end_divisor, top = rise * steps - 1, last = steps - 1
///     t <  top:   from start to rate, x = t / top
///     t >= top:   from rate to end, x = (min(t, last) - top) / (last - top)
///
/// along `shape`. t counts steps from 0. The first step has the rate `start` if rise * steps > 1;
/// otherwise the rise has already ended, as in torch. Step `last` and all later steps have the rate
/// `end`. Ranges: rate >= 0, steps >= 1, rise in [0, 1], divisors > 0. optax has
/// top = int(rise * steps) and last = steps. `one_cycle_momentum` is the cycle of the momentum.
struct one_cycle {
    double rate = missing;
    std::int64_t steps = missing_count;
    double rise = 0.3, start_divisor = 25, end_divisor = 1e4;
    anneal shape = anneal::cosine;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &one_cycle::rate, ranges::non_negative},
                            hyperparameter{"steps", &one_cycle::steps, ranges::positive_count},
                            hyperparameter{"rise", &one_cycle::rise, ranges::share},
                            hyperparameter{"start_divisor", &one_cycle::start_divisor, ranges::positive},
                            hyperparameter{"end_divisor", &one_cycle::end_divisor, ranges::positive},
                            hyperparameter{"shape", &one_cycle::shape}};

    GRADSTEP_INLINE double operator()(clock now) const {
        double const start = rate / start_divisor;
        double const top = std::fma(rise, static_cast<double>(steps), -1), last = static_cast<double>(steps - 1);
        double const t = std::min(static_cast<double>(now.step), last);
        if (t < top) return detail::between(start, rate, t / top, shape);
        if (!(top < last)) return rate; // it only rises
        return detail::between(rate, start / end_divisor, (t - top) / (last - top), shape);
    }
};
} // namespace gradstep
