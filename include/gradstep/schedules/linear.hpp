#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Linear decay: the rate falls by `a` in each step, down to `b`.
///
///     max(rate - a * t, b)
///
/// t counts steps from 0. Ranges: rate, a, b >= 0. For a line of a given length use `polynomial`.
struct linear {
    double rate = missing, a = missing, b = missing;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"rate", &linear::rate, ranges::non_negative},
        hyperparameter{"a", &linear::a, ranges::non_negative}, hyperparameter{"b", &linear::b, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const {
        return std::max(std::fma(-a, static_cast<double>(now.step), rate), b);
    }
};
} // namespace gradstep
