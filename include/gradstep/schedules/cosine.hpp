#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// From `rate` down to `end` along half a cosine, then constantly `end`. Loshchilov & Hutter 2017,
/// arXiv:1608.03983, eq. 5.
///
///     end + (rate - end) / 2 * (1 + cos(pi * min(t, steps) / steps))
///
/// t counts steps from 0. Ranges: rate, end >= 0; steps >= 1.
struct cosine {
    double rate = missing;
    std::int64_t steps = missing_count;
    double end = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &cosine::rate, ranges::non_negative},
                            hyperparameter{"steps", &cosine::steps, ranges::positive_count},
                            hyperparameter{"end", &cosine::end, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const {
        return detail::between(rate, end, detail::ratio(std::min(now.step, steps), steps), anneal::cosine);
    }
};
} // namespace gradstep
