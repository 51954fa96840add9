#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// AdaBelief: Adam that scales by the distance between a gradient and its average. Zhuang et al.
/// 2020, arXiv:2010.07468, Algorithm 2.
///
///     m <- beta1 * m + (1 - beta1) * g
///     s <- beta2 * s + (1 - beta2) * (g - m)^2 + epsilon_root
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(s / (1 - beta2^t)) + epsilon)
///
/// bias_correction = false: 1 in place of both 1 - beta^t.
///
/// State: m, s, initially zero. Ranges: 0 <= beta1, beta2 < 1; epsilon, epsilon_root >= 0 (if both
/// are 0, a weight whose m and s are 0 does not change). Without gradient, s still changes by m^2:
/// tables support only `touch_only`.
/// Other frameworks: the defaults are optax's; the paper uses 1e-8 for both.
struct adabelief {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-16, epsilon_root = 1e-16;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adabelief::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adabelief::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &adabelief::epsilon, ranges::non_negative},
                            hyperparameter{"epsilon_root", &adabelief::epsilon_root, ranges::non_negative},
                            hyperparameter{"bias_correction", &adabelief::bias_correction}};

    template <class X> struct state { X m, s; };
    static constexpr std::array state_names{"m", "s"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T rate, epsilon_root;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(now.rate / detail::bias(beta1, now.t, bias_correction)),
                T(epsilon_root),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t, bias_correction)}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.s = c.second.of_square(s.s, g - s.m) + V(c.epsilon_root);
        w = math::fnma(V(c.rate), math::div(s.m, c.root.corrected_outside(s.s)), w);
    }
};
static_assert(rule<adabelief>);
} // namespace gradstep
