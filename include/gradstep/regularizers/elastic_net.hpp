#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Coupled L1 and L2: adds the subgradient of l1 * |w| + l2 / 2 * |w|^2 to the gradient, before the
/// rule.
///
///     g <- g + l2 * w + l1 * sgn(w)        sgn(0) = 0
///
/// Zou & Hastie 2005. Ranges: l1 >= 0, l2 >= 0.
struct elastic_net {
    double l1 = missing, l2 = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"l1", &elastic_net::l1, ranges::non_negative},
                            hyperparameter{"l2", &elastic_net::l2, ranges::non_negative}};
    static constexpr bool is_decay = true;

    /// The same regularizer, `factor` times as fast.
    elastic_net decayed_by(double factor) const { return {l1 * factor, l2 * factor}; }

    template <class T> struct coeffs { T l1, l2; };
    template <class T> coeffs<T> prepare(step_info) const { return {T(l1), T(l2)}; }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const& c, V& w, V& g) {
        g = math::fma(V(c.l2), w, g);
        g = math::fma(V(c.l1), math::sign(w), g);
    }
};
} // namespace gradstep
