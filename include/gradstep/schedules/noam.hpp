#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// A linear warm-up of `steps` steps, then the inverse square root. Vaswani et al. 2017,
/// arXiv:1706.03762, eq. 3:
///
///     rate * width^(-1/2) * min(t^(-1/2), t * steps^(-3/2)),  0 at t = 0
///
/// t counts steps from 0, so that the first step has a rate of 0. Ranges: rate >= 0; width (of the
/// model), steps >= 1.
struct noam {
    double rate = missing;
    std::int64_t width = missing_count, steps = missing_count;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &noam::rate, ranges::non_negative},
                            hyperparameter{"width", &noam::width, ranges::positive_count},
                            hyperparameter{"steps", &noam::steps, ranges::positive_count}};

    GRADSTEP_INLINE double operator()(clock now) const {
        auto const t = static_cast<double>(now.step), ramp = static_cast<double>(steps);
        return rate / std::sqrt(static_cast<double>(width)) * std::min(1 / std::sqrt(t), t / (ramp * std::sqrt(ramp)));
    }
};
} // namespace gradstep
