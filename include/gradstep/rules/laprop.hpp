#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// LaProp: Adam that divides a gradient by the root before it enters the momentum. Ziyin, Wang &
/// Ueda 2020, arXiv:2002.04839, Algorithm 1.
///
///     v <- beta2 * v + (1 - beta2) * g^2
///     m <- beta1 * m + (1 - beta1) * g / (sqrt(v / (1 - beta2^t)) + epsilon)
///     w <- w - lr / (1 - beta1^t) * m
///
/// bias_correction = false: 1 in place of both 1 - beta^t.
///
/// State: m, v, initially zero. Ranges: 0 <= beta1, beta2 < 1; epsilon >= 0 (with 0 there is no
/// 0 / 0, but a gradient whose square underflows moves a weight without bound). Tables support
/// `replay`.
/// Other frameworks: beta1 and beta2 are mu and nu in the paper. The authors' code and timm have
/// the rate inside the buffer, and correct it by the same average of the rates. Both are equal for
/// a constant rate.
struct laprop {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-15;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &laprop::beta1, ranges::fraction},
                            hyperparameter{"beta2", &laprop::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &laprop::epsilon, ranges::non_negative},
                            hyperparameter{"bias_correction", &laprop::bias_correction}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T rate;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(now.rate / detail::bias(beta1, now.t, bias_correction)),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t, bias_correction)}};
    }
    // Without gradient m falls, and the correction of m too.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t) const {
        return prepare<T>(from);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.v = c.second.of_square(s.v, g);
        s.m = c.first(s.m, math::div(g, c.root.corrected_outside(s.v)));
        w = math::fnma(V(c.rate), s.m, w);
    }
};
static_assert(rule<laprop>);
} // namespace gradstep
