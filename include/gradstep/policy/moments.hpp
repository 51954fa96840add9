#pragma once
#include <gradstep/number/pack.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// An exponential moving average, as scalars of one step:  a <- beta * a + (1 - beta) * x.
template <class T> struct moving_average {
    T beta, gain;

    moving_average() = default;
    GRADSTEP_INLINE explicit moving_average(double rate) : beta(T(rate)), gain(T(1 - rate)) {}

    /// The average after adding x.
    template <pack V> GRADSTEP_HD V operator()(V average, V x) const {
        return math::fma(V(beta), average, V(gain) * x);
    }
    /// The average of x^2.
    template <pack V> GRADSTEP_HD V of_square(V average, V x) const {
        return math::fma(V(beta), average, V(gain) * x * x);
    }
};

/// The variance, given the average `mean` and the average of squares `of_squares`; 0 if the
/// difference rounds to below 0.
template <pack V> GRADSTEP_HD V variance(V of_squares, V mean) {
    return math::max(math::fnma(mean, mean, of_squares), V(0));
}
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// 1 - beta^t: the total weight of an average that starts at 0 after t steps. It rounds to 1 once
// beta^t is below 2^-54. Since log(beta) <= beta - 1, this holds from (1 - beta) t = 54
// log(2) = 37.4 on; later steps need no power.
GRADSTEP_INLINE double bias(double beta, std::int64_t t) {
    double const steps = static_cast<double>(t);
    return (1 - beta) * steps > 38 ? 1 : 1 - std::pow(beta, steps);
}
// The same, or 1 if the rule does not correct its averages.
GRADSTEP_INLINE double bias(double beta, std::int64_t t, bool corrects) { return corrects ? bias(beta, t) : 1; }
} // namespace gradstep::detail::inline GRADSTEP_ISA
