#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Adam. Kingma & Ba 2015, arXiv:1412.6980, Algorithm 1. With `decoupled` it is AdamW
/// (arXiv:1711.05101).
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     epsilon_place outside:   root = sqrt(v / (1 - beta2^t)) + epsilon
///                   inside:    root = sqrt(v / (1 - beta2^t) + epsilon)
///                   hat:       root = (sqrt(v) + epsilon) / sqrt(1 - beta2^t)
///     w <- w - lr / (1 - beta1^t) * m / root
///
/// bias_correction = false: 1 in place of both 1 - beta^t, as in BERT's optimizer and by default in
/// mlx. A step is then (1 - beta1^t) / sqrt(1 - beta2^t) times as long: 3.2 times at t = 1, and 6.5
/// times at t = 10, with the default betas.
///
/// State: m, v, initially zero; t counts from 1 as a 64-bit integer. The bias corrections are
/// computed once a step, in double. Ranges: 0 <= beta1, beta2 < 1; epsilon >= 0 (with 0 there is no
/// 0 / 0, but a gradient whose square underflows moves a weight without bound).
/// Other frameworks: the paper, torch, optax and Paddle have epsilon outside the root, after the
/// bias correction. Keras, TensorFlow and torch's SparseAdam use the paper's epsilon-hat (before
/// the correction).
struct adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &adam::epsilon, ranges::non_negative},
                            hyperparameter{"epsilon_place", &adam::epsilon_place, epsilon_positions::corrected},
                            hyperparameter{"bias_correction", &adam::bias_correction}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T rate;
        root_terms<T> root;
        GRADSTEP_INLINE bool is_default() const { return root.inside == T(0); }
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(now.rate / detail::bias(beta1, now.t, bias_correction)),
                {epsilon, epsilon_place, detail::bias(beta2, now.t, bias_correction)}};
    }
    // Without gradient, m / sqrt(v) falls by beta1 / sqrt(beta2) a step. Uses the largest bias
    // corrections.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const {
        if (beta1 * beta1 > beta2) return {};
        return detail::with_smallest_root<T>(*this, from, to);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        w = math::fnma(V(c.rate), math::div(s.m, c.root.corrected(s.v)), w);
    }
    template <class T, pack V> GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        w = math::fnma(V(c.rate), math::div(s.m, c.root.corrected_outside(s.v)), w);
    }
};
static_assert(rule<adam>);
} // namespace gradstep
