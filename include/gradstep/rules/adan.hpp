#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The weight of the difference of two gradients in `adan`.
enum class difference_weight {
    beta2,           ///< the paper, its authors' code and timm
    one_minus_beta2, ///< optax
};
template <> inline constexpr std::array enumerators<difference_weight>{"beta2", "one_minus_beta2"};

/// Adan: Adam with Nesterov's look-ahead, from the difference of two gradients. Xie et al. 2022,
/// arXiv:2208.06677, Algorithm 1, with the bias corrections of the authors' code.
///
///     x = g - p,    at t = 1:  x = 0
///     m <- beta1 * m + (1 - beta1) * g
///     d <- beta2 * d + (1 - beta2) * x
///     n <- beta3 * n + (1 - beta3) * (g + k * x)^2
///     w <- w - lr * (m / (1 - beta1^t) + k * d / (1 - beta2^t)) / root
///     p <- g
///
/// k is beta2 or 1 - beta2, by difference_weight;
/// root = sqrt(n / (1 - beta3^t) + epsilon_root) + epsilon.
/// bias_correction = false: 1 in place of each 1 - beta^t.
///
/// State: m, d, n, p, initially zero. Ranges: 0 <= beta1, beta2, beta3 < 1; epsilon,
/// epsilon_root >= 0 (with both 0 there is no 0 / 0, but a gradient whose square underflows moves a
/// weight without bound). Without gradient, d changes by p: tables support only `touch_only`. There
/// p is the gradient of the row's last batch, and 0 before its first one.
/// Other frameworks: the paper's betas are 1 minus these, and its first averages are of the first
/// gradient. The paper's weight decay is `proximal{l2{decay}}`. optax weighs the difference by
/// 1 - beta2, and has epsilon_root = 1e-8.
struct adan {
    double beta1 = 0.98, beta2 = 0.92, beta3 = 0.99, epsilon = 1e-8, epsilon_root = 0;
    gradstep::difference_weight difference_weight = gradstep::difference_weight::beta2;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adan::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adan::beta2, ranges::fraction},
                            hyperparameter{"beta3", &adan::beta3, ranges::fraction},
                            hyperparameter{"epsilon", &adan::epsilon, ranges::non_negative},
                            hyperparameter{"epsilon_root", &adan::epsilon_root, ranges::non_negative},
                            hyperparameter{"difference_weight", &adan::difference_weight},
                            hyperparameter{"bias_correction", &adan::bias_correction}};

    template <class X> struct state { X m, d, n, p; };
    static constexpr std::array state_names{"m", "d", "n", "p"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::both_signs, code_map::one_sign,
                                          code_map::both_signs};

    template <class T> struct coeffs {
        moving_average<T> first, difference, second;
        T differs, weight, of_d, rate; // differs: 0 in the first step, then 1
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const k = difference_weight == gradstep::difference_weight::beta2 ? beta2 : 1 - beta2;
        double const bias1 = detail::bias(beta1, now.t, bias_correction),
                     bias3 = detail::bias(beta3, now.t, bias_correction);
        coeffs<T> c{moving_average<T>(beta1),
                    moving_average<T>(beta2),
                    moving_average<T>(beta3),
                    T(now.t != 1),
                    T(k),
                    T(k * bias1 / detail::bias(beta2, now.t, bias_correction)),
                    T(now.rate / bias1),
                    {epsilon, gradstep::epsilon::outside, bias3}};
        c.root.inside = T(epsilon_root * bias3);
        return c;
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        V const x = math::mul(V(c.differs), g - s.p);
        s.m = c.first(s.m, g);
        s.d = c.difference(s.d, x);
        s.n = c.second.of_square(s.n, math::fma(V(c.weight), x, g));
        w = math::fnma(V(c.rate), math::div(math::fma(V(c.of_d), s.d, s.m), c.root.corrected(s.n)), w);
        s.p = g;
    }
};
static_assert(rule<adan>);
} // namespace gradstep
