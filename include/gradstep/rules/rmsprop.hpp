#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// RMSProp. Tieleman & Hinton 2012, Coursera lecture 6.5.
///
///     n <- rho * n + (1 - rho) * g^2
///     w <- w - lr * g / (sqrt(n) + epsilon)          epsilon_place inside:  lr * g / sqrt(n + epsilon)
///
/// State: n, initially initial_accumulator. Ranges: 0 <= rho < 1; epsilon, initial_accumulator >= 0
/// (with epsilon = 0 there is no 0 / 0, but a gradient whose square underflows moves a weight
/// without bound).
/// Other frameworks: torch has epsilon outside the root (rho 0.99, 1e-8). Keras (0.9, 1e-7),
/// TensorFlow, Paddle and optax (0.9, 1e-8) have it inside. TensorFlow 1 starts n at 1.
struct rmsprop {
    double rho = 0.99, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    double initial_accumulator = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"rho", &rmsprop::rho, ranges::fraction},
        hyperparameter{"epsilon", &rmsprop::epsilon, ranges::non_negative},
        hyperparameter{"epsilon_place", &rmsprop::epsilon_place, epsilon_positions::uncorrected},
        hyperparameter{"initial_accumulator", &rmsprop::initial_accumulator, ranges::constant(ranges::non_negative)}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::decays_state;

    template <class X> struct state { X n; };
    static constexpr std::array state_names{"n"};
    static constexpr int newton_roots = 2;
    static constexpr std::array code_maps{code_map::one_sign};
    GRADSTEP_HD state<double> initial() const { return {initial_accumulator}; }
    GRADSTEP_INLINE state<double> decay() const { return {rho}; }

    template <class T> struct coeffs {
        moving_average<T> average;
        root_terms<T> root;
        T rate;
        GRADSTEP_INLINE bool is_default() const { return root.inside == T(0); }
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(rho), {epsilon, epsilon_place}, T(now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = c.average.of_square(s.n, g);
        w = math::fnma(V(c.rate), math::div(g, c.root.of(s.n)), w);
    }
    template <class T, pack V> GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = c.average.of_square(s.n, g);
        w = math::fnma(V(c.rate), math::div(g, c.root.of_outside(s.n)), w);
    }
};
static_assert(rule<rmsprop>);
} // namespace gradstep
