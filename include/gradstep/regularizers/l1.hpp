#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Coupled L1: adds the subgradient of rate * |w| to the gradient, before the rule.
///
///     g <- g + rate * sgn(w)        sgn(0) = 0
///
/// It pulls weights towards zero, but they do not stop there. If you want exact zeros, use
/// `proximal{l1{rate}}` or `ftrl`. Range: rate >= 0.
struct l1 {
    double rate = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &l1::rate, ranges::non_negative}};
    static constexpr bool is_decay = true;

    /// The same regularizer, `factor` times as fast.
    l1 decayed_by(double factor) const { return {rate * factor}; }

    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(step_info) const { return {T(rate)}; }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const& c, V& w, V& g) {
        g = math::fma(V(c.rate), math::sign(w), g);
    }
};
} // namespace gradstep
