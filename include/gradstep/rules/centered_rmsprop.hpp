#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// RMSProp with the variance of the gradient instead of its second moment. Graves 2013,
/// arXiv:1308.0850, eq. 38-45.
///
///     n <- rho * n + (1 - rho) * g^2
///     a <- rho * a + (1 - rho) * g
///     variance = max(n - a^2, 0)
///     w <- w - lr * g / (sqrt(variance) + epsilon)   epsilon_place inside:  lr * g / sqrt(variance + epsilon)
///
/// State: n, initially initial_accumulator; a, initially zero. Ranges: 0 <= rho < 1; epsilon,
/// initial_accumulator >= 0. The difference can round to below 0; in other frameworks its root is
/// then NaN (torch), or epsilon hides it.
/// Other frameworks: torch has epsilon outside the root (rho 0.99, 1e-8). Keras (0.9, 1e-7),
/// TensorFlow, Paddle and optax (0.9, 1e-8) have it inside. TensorFlow 1 starts n at 1.
struct centered_rmsprop {
    double rho = 0.99, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    double initial_accumulator = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"rho", &centered_rmsprop::rho, ranges::fraction},
        hyperparameter{"epsilon", &centered_rmsprop::epsilon, ranges::non_negative},
        hyperparameter{"epsilon_place", &centered_rmsprop::epsilon_place, epsilon_positions::uncorrected},
        hyperparameter{"initial_accumulator", &centered_rmsprop::initial_accumulator,
                       ranges::constant(ranges::non_negative)}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::decays_state;

    template <class X> struct state { X n, a; };
    static constexpr std::array state_names{"n", "a"};
    static constexpr int newton_roots = 1;
    GRADSTEP_HD state<double> initial() const { return {initial_accumulator, 0}; }
    GRADSTEP_INLINE state<double> decay() const { return {rho, rho}; }

    template <class T> struct coeffs {
        moving_average<T> average;
        root_terms<T> root;
        T rate;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(rho), {epsilon, epsilon_place}, T(now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = c.average.of_square(s.n, g);
        s.a = c.average(s.a, g);
        w = math::fnma(V(c.rate), math::div(g, c.root.of(variance(s.n, s.a))), w);
    }
};
static_assert(rule<centered_rmsprop>);
} // namespace gradstep
