#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// QHAdam: Adam with quasi-hyperbolic moments, which weigh the current gradient separately. Ma &
/// Yarats 2019, arXiv:1810.06801, section 4.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     root = sqrt((1 - nu2) * g^2 + nu2 * v / (1 - beta2^t)) + epsilon
///     w <- w - lr * ((1 - nu1) * g + nu1 * m / (1 - beta1^t)) / root
///
/// State: m, v, initially zero. Ranges: 0 <= beta1, beta2 < 1; 0 <= nu1, nu2 <= 1; epsilon as in
/// `adam`. nu1 = nu2 = 1 is `adam`. Tables support `replay`.
/// The defaults are those that the authors recommend; in their code nu1 = nu2 = 1 and beta1 = 0.9.
struct qhadam {
    double beta1 = 0.995, beta2 = 0.999, nu1 = 0.7, nu2 = 1, epsilon = 1e-8;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"beta1", &qhadam::beta1, ranges::fraction},
        hyperparameter{"beta2", &qhadam::beta2, ranges::fraction}, hyperparameter{"nu1", &qhadam::nu1, ranges::share},
        hyperparameter{"nu2", &qhadam::nu2, ranges::share},
        hyperparameter{"epsilon", &qhadam::epsilon, ranges::non_negative}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T of_m, of_g, of_v, of_square, rate; // of_square: (1 - nu2) * (1 - beta2^t), corrected with v
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const bias = detail::bias(beta2, now.t);
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(nu1 / detail::bias(beta1, now.t)),
                T(1 - nu1),
                T(nu2),
                T((1 - nu2) * bias),
                T(now.rate),
                {epsilon, gradstep::epsilon::outside, bias}};
    }
    // As in adam: without gradient, m / sqrt(v) falls by beta1 / sqrt(beta2) a step.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const {
        if (beta1 * beta1 > beta2) return {};
        return detail::with_smallest_root<T>(*this, from, to);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        V const square = math::fma(V(c.of_v), s.v, V(c.of_square) * g * g);
        V const direction = math::fma(V(c.of_m), s.m, V(c.of_g) * g);
        w = math::fnma(V(c.rate), math::div(direction, c.root.corrected_outside(square)), w);
    }
};
static_assert(rule<qhadam>);
} // namespace gradstep
