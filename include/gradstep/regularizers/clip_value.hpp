#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Clips every element of the gradient, after gradient_scale and the regularizers to its left.
///
///     g <- min(max(g, -limit), limit)        NaN stays NaN
///
/// Range: limit > 0.
struct clip_value {
    double limit = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"limit", &clip_value::limit, ranges::positive}};
    static constexpr auto at_zero_gradient = zero_gradient_weight::no_op;

    template <class T> struct coeffs { T limit; };
    template <class T> coeffs<T> prepare(step_info) const { return {T(limit)}; }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const& c, V&, V& g) {
        g = math::min(math::max(g, V(-c.limit)), V(c.limit));
    }
};
} // namespace gradstep
