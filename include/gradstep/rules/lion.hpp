#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Lion: the sign of an interpolated momentum. Chen et al. 2023, arXiv:2302.06675, Algorithm 2.
///
///     w <- w - lr * sgn(beta1 * m + (1 - beta1) * g)          sgn(0) = 0
///     m <- beta2 * m + (1 - beta2) * g
///
/// State: m, initially zero. Ranges: 0 <= beta1, beta2 < 1. A weight changes by lr, whatever the
/// size of the gradient; NaN still reaches it.
/// Other frameworks: DeepSpeed's beta2 is 0.999. Its kernels moved a weight with gradient 0 and
/// state 0, on CPU and GPU in opposite directions.
struct lion {
    double beta1 = 0.9, beta2 = 0.99;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &lion::beta1, ranges::fraction},
                            hyperparameter{"beta2", &lion::beta2, ranges::fraction}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    static constexpr std::array code_maps{code_map::both_signs};
    GRADSTEP_INLINE state<double> decay() const { return {beta2}; }

    template <class T> struct coeffs {
        moving_average<T> looking, keeping;
        T rate;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1), moving_average<T>(beta2), T(now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        w = math::fnma(V(c.rate), math::sign(c.looking(s.m, g)), w);
        s.m = c.keeping(s.m, g);
    }
};
static_assert(rule<lion>);
} // namespace gradstep
