#pragma once
#include <gradstep/number/cube_root.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// MADGRAD: dual averaging with momentum, and the cube root of a sum of squares for the step size
/// of each weight. Defazio & Jelassi 2021, arXiv:2101.11075, Algorithm 1; mu is 1 - c there.
///
///     h = lr * sqrt(t) * g
///     s <- s + h
///     n <- n + h * g
///     z = w0 - s / (cbrt(n) + epsilon)
///     w <- mu * w + (1 - mu) * z
///
/// State: s, n, initially zero; w0, the initial weight. If you set weights later, w0 becomes the
/// weight and s 0 (`updater::weights_set`). Ranges: 0 <= mu < 1, epsilon >= 0 (with 0,
/// a gradient whose square underflows moves a weight without bound). A rate of 0 leaves s and n,
/// and w still moves to z. w is drawn to z, a function of the state, so the gradients that follow
/// undo a decay of the weight itself: use `l2`, as the authors do. In tables, `replay` follows a
/// row that moves to z.
/// Other frameworks: the authors' program and optax.contrib.madgrad add epsilon to the rate, which
/// this rule does not: use the rate lr + epsilon for their numbers.
struct madgrad {
    double mu = 0.9, epsilon = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"mu", &madgrad::mu, ranges::fraction},
                            hyperparameter{"epsilon", &madgrad::epsilon, ranges::non_negative}};

    template <class X> struct state { X s, n, w0; };
    static constexpr std::array state_names{"s", "n", "w0"};
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {V(0), V(0), w}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const {
        s.s = V(0); // so that z is w
        s.w0 = w;
    }
    GRADSTEP_INLINE state<double> decay() const { return {1, 1, 1}; }

    template <class T> struct coeffs { T mu, rate, epsilon; };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(mu), T(now.rate * std::sqrt(static_cast<double>(now.t))), never_zero<T>(epsilon)};
    }
    // Without gradient z stands still, and the distance to it falls by mu a step.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t) const {
        return prepare<T>(from);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        V const h = math::mul(V(c.rate), g);
        s.s = s.s + h;
        s.n = math::fma(h, g, s.n);
        V const z = s.w0 - math::div(s.s, math::cbrt(s.n) + V(c.epsilon));
        w = math::fma(V(c.mu), w - z, z); // exactly z where w is z
    }
};
static_assert(rule<madgrad>);
} // namespace gradstep
