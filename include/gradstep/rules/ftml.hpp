#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// FTML: follow the moving leader. Zheng & Kwok 2017, "Follow the moving leader in deep learning",
/// ICML, Algorithm 1:
///
///     v <- beta2 * v + (1 - beta2) * g^2,    d' = (1 - beta1^t) / lr * (sqrt(v / (1 - beta2^t)) + epsilon)
///     z <- beta1 * z + (1 - beta1) * g - (d' - beta1 * d) * w,    w <- -z / d',    d <- d'
///
/// After each step z = -d * w. With that, z and d cancel, and this rule computes what remains:
///
///     v <- beta2 * v + (1 - beta2) * g^2
///     w <- w - lr * (1 - beta1) / (1 - beta1^t) * g / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// It needs one slot instead of three, is defined at a rate of 0, and keeps the digits of w that
/// the difference in z loses. beta1 is no momentum: it lowers the rate of the first steps from lr
/// to (1 - beta1) * lr. State: v, initially zero. Ranges: 0 <= beta1, beta2 < 1, epsilon >= 0 (with
/// 0 there is no 0 / 0, but a gradient whose square underflows moves a weight without bound).
/// Other frameworks: MXNet and ensmallen (with beta1 = 0.9) compute the paper's form. It differs
/// where something else moves the weight, such as decoupled decay: there z undoes beta1 * d / d' of
/// that move.
struct ftml {
    double beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &ftml::beta1, ranges::fraction},
                            hyperparameter{"beta2", &ftml::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &ftml::epsilon, ranges::non_negative}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::decays_state;

    template <class X> struct state { X v; };
    static constexpr std::array state_names{"v"};
    static constexpr int newton_roots = 2;
    static constexpr std::array code_maps{code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta2}; }

    template <class T> struct coeffs {
        moving_average<T> second;
        T rate;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta2),
                T(now.rate * ((1 - beta1) / detail::bias(beta1, now.t))),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t)}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.v = c.second.of_square(s.v, g);
        w = math::fnma(V(c.rate), math::div(g, c.root.corrected_outside(s.v)), w);
    }
};
static_assert(rule<ftml>);
} // namespace gradstep
