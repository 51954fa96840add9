#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Power-law decay: the rate falls like a negative power of t.
///
///     rate * (1 + a * t)^(-b)
///
/// t counts steps from 0. Ranges: rate, a, b >= 0.
struct poly {
    double rate = missing, a = missing, b = missing;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"rate", &poly::rate, ranges::non_negative}, hyperparameter{"a", &poly::a, ranges::non_negative},
        hyperparameter{"b", &poly::b, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const {
        return rate * std::pow(std::fma(a, static_cast<double>(now.step), 1), -b);
    }
};
} // namespace gradstep
