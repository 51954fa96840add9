#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// RMSProp with the variance of the gradient and a momentum buffer. Graves 2013, arXiv:1308.0850,
/// eq. 38-45.
///
///     n <- rho * n + (1 - rho) * g^2
///     a <- rho * a + (1 - rho) * g
///     variance = max(n - a^2, 0)
///     d = g / (sqrt(variance) + epsilon)             epsilon_place inside:  g / sqrt(variance + epsilon)
///     rate_place outside:   b <- mu * b + d,         w <- w - lr * b
///     rate_place inside:    b <- mu * b + lr * d,    w <- w - b
///
/// State: n, initially initial_accumulator; a and b, initially zero. Ranges: 0 <= rho, mu < 1;
/// epsilon, initial_accumulator >= 0.
/// Other frameworks: torch has epsilon outside the root and the rate outside the buffer (rho 0.99,
/// 1e-8). Keras (0.9, 1e-7), TensorFlow, Paddle and optax (0.9, 1e-8) have both inside. TensorFlow
/// 1 starts n at 1.
struct centered_momentum_rmsprop {
    double rho = 0.99, epsilon = 1e-8, mu = 0.9;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    double initial_accumulator = 0;
    learning_rate rate_place = learning_rate::outside;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"rho", &centered_momentum_rmsprop::rho, ranges::fraction},
        hyperparameter{"epsilon", &centered_momentum_rmsprop::epsilon, ranges::non_negative},
        hyperparameter{"mu", &centered_momentum_rmsprop::mu, ranges::fraction},
        hyperparameter{"epsilon_place", &centered_momentum_rmsprop::epsilon_place, epsilon_positions::uncorrected},
        hyperparameter{"initial_accumulator", &centered_momentum_rmsprop::initial_accumulator,
                       ranges::constant(ranges::non_negative)},
        hyperparameter{"rate_place", &centered_momentum_rmsprop::rate_place}};

    template <class X> struct state { X n, a, b; };
    static constexpr std::array state_names{"n", "a", "b"};
    GRADSTEP_HD state<double> initial() const { return {initial_accumulator, 0, 0}; }
    GRADSTEP_INLINE state<double> decay() const { return {rho, rho, mu}; }

    template <class T> struct coeffs {
        moving_average<T> average;
        root_terms<T> root;
        momentum_terms<T> buffer;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(rho), {epsilon, epsilon_place}, {mu, rate_place, now.rate}};
    }
    // Without gradient, b falls by mu a step.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t) const {
        return prepare<T>(from);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = c.average.of_square(s.n, g);
        s.a = c.average(s.a, g);
        s.b = c.buffer(s.b, math::div(g, c.root.of(variance(s.n, s.a))));
        w = c.buffer.moved(w, s.b);
    }
};
static_assert(rule<centered_momentum_rmsprop>);
} // namespace gradstep
