#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Optimistic Adam: `optimistic_sgd` with the direction of Adam in place of the gradient.
/// Daskalakis et al. 2018, arXiv:1711.00141, Algorithm 1, which has alpha = beta = 1.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     u = m / (1 - beta1^t) / root
///     nesterov:   u = (beta1 * m / (1 - beta1^(t + 1)) + (1 - beta1) * g / (1 - beta1^t)) / root
///     w <- w - lr * ((alpha + beta) * u - beta * p)              alpha * u at the first step
///     p <- u
///
/// root as in `adam`, by epsilon_place. State: m, v and p, the previous direction, initially zero.
/// Ranges: as in `adam`; alpha, beta finite and >= 0. In a table, the direction of an inactive row
/// is not computed: only `touch_only`.
/// Other frameworks: optax's optimistic_adam_v2 has nesterov by default. optimistic_adam(lr, o) is
/// alpha = 1 and beta = o / lr here.
struct optimistic_adam {
    double alpha = 1, beta = 1, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    bool nesterov = false;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"alpha", &optimistic_adam::alpha, ranges::non_negative},
        hyperparameter{"beta", &optimistic_adam::beta, ranges::non_negative},
        hyperparameter{"beta1", &optimistic_adam::beta1, ranges::fraction},
        hyperparameter{"beta2", &optimistic_adam::beta2, ranges::fraction},
        hyperparameter{"epsilon", &optimistic_adam::epsilon, ranges::non_negative},
        hyperparameter{"nesterov", &optimistic_adam::nesterov},
        hyperparameter{"epsilon_place", &optimistic_adam::epsilon_place, epsilon_positions::corrected}};

    template <class X> struct state { X m, v, p; };
    static constexpr std::array state_names{"m", "v", "p"};
    static constexpr int newton_roots = 1;

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T of_m, of_g, of_u, of_p, rate;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const optimism = now.t == 1 ? 0 : beta, first = detail::bias(beta1, now.t);
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(nesterov ? beta1 / detail::bias(beta1, now.t + 1) : 1 / first),
                T(nesterov ? (1 - beta1) / first : 0),
                T(alpha + optimism),
                T(optimism),
                T(now.rate),
                {epsilon, epsilon_place, detail::bias(beta2, now.t)}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        V const u = math::div(math::fma(V(c.of_m), s.m, V(c.of_g) * g), c.root.corrected(s.v));
        w = math::fnma(V(c.rate), math::fnma(V(c.of_p), s.p, V(c.of_u) * u), w);
        s.p = u;
    }
};
static_assert(rule<optimistic_adam>);
} // namespace gradstep
