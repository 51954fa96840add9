#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Adagrad. Duchi, Hazan & Singer 2011, JMLR 12, section 5 (diagonal form).
///
///     n <- n + g^2
///     w <- w - lr * g / (sqrt(n) + epsilon)          epsilon_place inside:  lr * g / sqrt(n + epsilon)
///
/// State: n, initially initial_accumulator. Ranges: epsilon >= 0, initial_accumulator >= 0 (with
/// epsilon = 0 and n = 0 there is no 0 / 0, but a gradient whose square underflows moves a weight
/// without bound).
/// Other frameworks: torch (1e-10), FBGEMM (1e-8) and Paddle have epsilon outside the root. Keras
/// and optax put 1e-7 inside the root and start n at 0.1. TensorFlow starts n at 0.1 too; its first
/// version has no epsilon and rejects a start at 0.
struct adagrad {
    double epsilon = 1e-10, initial_accumulator = 0;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"epsilon", &adagrad::epsilon, ranges::non_negative},
        hyperparameter{"initial_accumulator", &adagrad::initial_accumulator, ranges::constant(ranges::non_negative)},
        hyperparameter{"epsilon_place", &adagrad::epsilon_place, epsilon_positions::uncorrected}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::no_op;

    template <class X> struct state { X n; };
    static constexpr std::array state_names{"n"};
    static constexpr int newton_roots = 2;
    static constexpr std::array code_maps{code_map::one_sign};
    GRADSTEP_HD state<double> initial() const { return {initial_accumulator}; }

    template <class T> struct coeffs {
        T rate;
        root_terms<T> root;
        GRADSTEP_INLINE bool is_default() const { return root.inside == T(0); }
    };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.rate), {epsilon, epsilon_place}}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = math::fma(g, g, s.n);
        w = math::fnma(V(c.rate), math::div(g, c.root.of(s.n)), w);
    }
    template <class T, pack V> GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = math::fma(g, g, s.n);
        w = math::fnma(V(c.rate), math::div(g, c.root.of_outside(s.n)), w);
    }
};
static_assert(rule<adagrad>);
} // namespace gradstep
