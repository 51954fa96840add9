#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Coupled L2: adds the gradient of rate / 2 * |w|^2 to the gradient, before the rule.
///
///     g <- g + rate * w
///
/// This is the weight_decay of torch's optimizers, except adamw. For a decay that does not enter
/// the rule's state, see `decoupled`. Range: rate >= 0.
struct l2 {
    double rate = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &l2::rate, ranges::non_negative}};
    static constexpr bool is_decay = true;
    static constexpr auto at_zero_gradient = zero_gradient_weight::coupled;

    /// The same regularizer, `factor` times as fast.
    l2 decayed_by(double factor) const { return {rate * factor}; }

    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(step_info) const { return {T(rate)}; }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const& c, V& w, V& g) {
        g = math::fma(V(c.rate), w, g);
    }
};
} // namespace gradstep
