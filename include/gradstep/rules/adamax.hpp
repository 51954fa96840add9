#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Adamax: Adam with the infinity norm. Kingma & Ba 2015, arXiv:1412.6980, Algorithm 2.
///
///     m <- beta1 * m + (1 - beta1) * g
///     epsilon_place outside:       u <- max(beta2 * u, |g|),              d = m / (u + epsilon)
///                   inside:        u <- max(beta2 * u, |g| + epsilon),    d = m / u
///                   accumulated:   u <- max(beta2 * u + epsilon, |g|),    d = m / u
///     w <- w - lr / (1 - beta1^t) * d
///
/// bias_correction = false: 1 in place of 1 - beta1^t, as in mlx.
///
/// State: m, u, initially zero. Ranges: 0 <= beta1, beta2 < 1; epsilon >= 0 (with 0, a weight whose
/// u is 0 does not change; the paper has 0 / 0 there). Tables support `replay` unless epsilon is
/// accumulated: u then has no closed form without gradient.
/// Other frameworks: epsilon is inside the maximum in torch and optax, accumulated in Paddle,
/// outside in Keras and TensorFlow.
struct adamax {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    bool bias_correction = true;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"beta1", &adamax::beta1, ranges::fraction},
        hyperparameter{"beta2", &adamax::beta2, ranges::fraction},
        hyperparameter{"epsilon", &adamax::epsilon, ranges::non_negative},
        hyperparameter{"epsilon_place", &adamax::epsilon_place,
                       choices<gradstep::epsilon>{gradstep::epsilon::outside, gradstep::epsilon::inside,
                                                  gradstep::epsilon::accumulated}},
        hyperparameter{"bias_correction", &adamax::bias_correction}};

    template <class X> struct state { X m, u; };
    static constexpr std::array state_names{"m", "u"};
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }
    GRADSTEP_INLINE void check_decay() const {
        if (epsilon_place == gradstep::epsilon::accumulated)
            detail::fail<value_error>({"adamax.epsilon_place"}, {"accumulated is not allowed"},
                                      {"outside or inside to be replayed, since u does not fall by a factor without "
                                       "gradient; or use touch_only"});
    }

    template <class T> struct coeffs {
        moving_average<T> first;
        T beta2, rate, inside, accumulated, outside; // epsilon in one of the three positions
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        auto const at = [this](gradstep::epsilon position) {
            return position == epsilon_place ? never_zero<T>(epsilon) : T(0);
        };
        using enum gradstep::epsilon;
        return {
            moving_average<T>(beta1), T(beta2),   T(now.rate / detail::bias(beta1, now.t, bias_correction)), at(inside),
            at(accumulated),          at(outside)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.u = math::maximum(math::abs(g) + V(c.inside), math::fma(V(c.beta2), s.u, V(c.accumulated)));
        w = math::fnma(V(c.rate), math::div(s.m, s.u + V(c.outside)), w);
    }
};
static_assert(rule<adamax>);
} // namespace gradstep
