#pragma once
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/idle.hpp>
#include <gradstep/core/members.hpp>

namespace gradstep {

/// Nesterov's accelerated gradient, written at the look-ahead point. Nesterov 1983; Sutskever et al. 2013, eq. 3-4,
/// in the variables of Bengio et al. 2013 (arXiv:1212.0901, eq. 7).
///
///     m <- mu * m + g
///     w <- w - lr * (g + mu * m)
///
/// State: m, zero at the start. Range: 0 <= mu < 1.
/// Differs elsewhere: this is torch's and optax's form; Keras' velocity form, w <- w + mu * v - lr * g, is the same for a
/// constant rate only.
struct nesterov {
    double mu = 0.9;
    static constexpr auto members = std::tuple{member{"mu", &nesterov::mu, ranges::fraction}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    static constexpr bool is_linear = true;
    GRADSTEP_INLINE state<double> decay() const { return {mu}; }

    template <class T> struct coeffs { T mu, rate; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(mu), T(now.rate)}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> c, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.mu), s.m, g);
        w = math::fnma(V(c.rate), math::fma(V(c.mu), s.m, g), w);
    }
};
static_assert(rule<nesterov>);

} // namespace gradstep
