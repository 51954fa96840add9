#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Adagrad with a moving average instead of the sum. Paddle's DecayedAdagrad. `rmsprop` has the
/// same formula and more positions for epsilon.
///
///     n <- rho * n + (1 - rho) * g^2
///     w <- w - lr * g / (sqrt(n) + epsilon)
///
/// State: n, initially zero. Ranges: 0 <= rho < 1, epsilon >= 0 (with 0 there is no 0 / 0, but a
/// gradient whose square underflows moves a weight without bound).
struct decayed_adagrad {
    double rho = 0.95, epsilon = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &decayed_adagrad::rho, ranges::fraction},
                            hyperparameter{"epsilon", &decayed_adagrad::epsilon, ranges::non_negative}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::decays_state;

    template <class X> struct state { X n; };
    static constexpr std::array state_names{"n"};
    static constexpr int newton_roots = 2;
    static constexpr std::array code_maps{code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {rho}; }

    template <class T> struct coeffs {
        moving_average<T> average;
        T rate, epsilon;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(rho), T(now.rate), never_zero<T>(epsilon)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = c.average.of_square(s.n, g);
        w = math::fnma(V(c.rate), math::div(g, math::sqrt(s.n) + V(c.epsilon)), w);
    }
};
static_assert(rule<decayed_adagrad>);
} // namespace gradstep
