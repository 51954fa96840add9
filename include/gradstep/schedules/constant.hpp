#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The same rate at every step. Range: rate >= 0.
struct constant {
    double rate = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &constant::rate, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock) const { return rate; }
};
} // namespace gradstep
