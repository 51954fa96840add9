#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Adadelta. Zeiler 2012, arXiv:1212.5701, Algorithm 1; the paper's rate is 1.
///
///     n <- rho * n + (1 - rho) * g^2
///     d = sqrt(u + epsilon) / sqrt(n + epsilon) * g
///     u <- rho * u + (1 - rho) * d^2
///     w <- w - lr * d
///
/// State: n and u, initially zero. Ranges: 0 <= rho < 1, epsilon >= 0 (with 0 nothing ever changes,
/// since u starts at 0).
/// Other frameworks: rho and epsilon are 0.9 and 1e-6 in torch and optax, 0.95 and 1e-7 in Keras,
/// 0.95 and 1e-6 in Paddle. In all of them u contains d without the rate.
struct adadelta {
    double rho = 0.95, epsilon = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &adadelta::rho, ranges::fraction},
                            hyperparameter{"epsilon", &adadelta::epsilon, ranges::non_negative}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::decays_state;

    template <class X> struct state { X n, u; };
    static constexpr std::array state_names{"n", "u"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::one_sign, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {rho, rho}; }

    template <class T> struct coeffs {
        moving_average<T> average;
        T rate, above, below; // epsilon; never 0 below the fraction
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(rho), T(now.rate), T(epsilon), never_zero<T>(epsilon)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        using math::div, math::mul, math::sqrt;
        s.n = c.average.of_square(s.n, g);
        V const d = mul(div(sqrt(s.u + V(c.above)), sqrt(s.n + V(c.below))), g);
        s.u = c.average.of_square(s.u, d);
        w = math::fnma(V(c.rate), d, w);
    }
};
static_assert(rule<adadelta>);
} // namespace gradstep
