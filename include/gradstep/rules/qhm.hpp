#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// QHM, quasi-hyperbolic momentum: a mean of a gradient step and a momentum step. Ma & Yarats 2019,
/// arXiv:1810.06801, eq. 3-4.
///
///     m <- beta * m + (1 - beta) * g
///     w <- w - lr * ((1 - nu) * g + nu * m)
///
/// State: m, initially zero (g in the paper). Ranges: 0 <= beta < 1, 0 <= nu <= 1. nu = 0 is `sgd`,
/// nu = 1 is momentum and nu = beta is Nesterov's, both with a normalized buffer: their rate is
/// (1 - beta) * lr. The step is linear: tables catch up by `exact`.
/// The defaults are the paper's rule of thumb.
struct qhm {
    double beta = 0.999, nu = 0.7;
    static constexpr auto hyperparameters = hyperparameter_list{hyperparameter{"beta", &qhm::beta, ranges::fraction},
                                                                hyperparameter{"nu", &qhm::nu, ranges::share}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    static constexpr std::array code_maps{code_map::both_signs};
    static constexpr bool is_linear = true;
    GRADSTEP_INLINE state<double> decay() const { return {beta}; }

    template <class T> struct coeffs {
        moving_average<T> average;
        T of_m, of_g, rate;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta), T(nu), T(1 - nu), T(now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.average(s.m, g);
        w = math::fnma(V(c.rate), math::fma(V(c.of_m), s.m, V(c.of_g) * g), w);
    }
};
static_assert(rule<qhm>);
} // namespace gradstep
