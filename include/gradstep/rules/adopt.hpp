#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// ADOPT: Adam that divides a gradient by the second moment of the gradients before it. Taniguchi
/// et al. 2024, arXiv:2411.02853, Algorithm 2 (with clipping).
///
///     t = 1:    v <- g^2                                        w and m do not change
///     t > 1:    x = g / max(sqrt(v), epsilon),    c = (t - 1)^(1/4)
///               m <- beta1 * m + (1 - beta1) * min(max(x, -c), c)
///               w <- w - lr * m
///               v <- beta2 * v + (1 - beta2) * g^2
///
/// State: m, v, initially zero. The paper calls the first gradient g_0, so that its t is t - 1
/// here. Ranges: 0 <= beta1, beta2 < 1; epsilon >= 0. An infinite gradient makes a finite step and
/// an infinite v, by which later finite gradients become 0. If the first gradient of a weight is 0,
/// v is 0, and the next gradient is divided by epsilon and clipped. The same holds for a row of a
/// table that is not in the first batch. Tables support `replay`.
/// Other frameworks: optax and the authors' code do this. timm has the power 1/3. optax has options
/// for a step without clipping (the paper's Algorithm 1) and for Nesterov's look-ahead.
struct adopt {
    double beta1 = 0.9, beta2 = 0.9999, epsilon = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adopt::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adopt::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &adopt::epsilon, ranges::non_negative}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T clip, rate, epsilon; // clip: 0 in the first step, which thus leaves m and w
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1), moving_average<T>(now.t == 1 ? 0 : beta2),
                T(std::sqrt(std::sqrt(static_cast<double>(now.t - 1)))), T(now.rate), never_zero<T>(epsilon)};
    }
    // Without gradient m falls.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t) const {
        return prepare<T>(from);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        V const x = math::div(g, math::max(math::sqrt(s.v), V(c.epsilon)));
        s.m = c.first(s.m, math::min(math::max(x, V(-c.clip)), V(c.clip)));
        s.v = c.second.of_square(s.v, g);
        w = math::fnma(V(c.rate), s.m, w);
    }
};
static_assert(rule<adopt>);
} // namespace gradstep
