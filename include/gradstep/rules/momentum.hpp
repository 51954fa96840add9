#pragma once
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/idle.hpp>
#include <gradstep/core/members.hpp>

namespace gradstep {

/// Momentum (heavy ball). Polyak 1964; Sutskever et al. 2013, section 2.
///
///     m <- mu * m + g
///     w <- w - lr * m
///
/// State: m, zero at the start. Range: 0 <= mu < 1.
/// Differs elsewhere: the rate is outside the buffer, as in torch, optax and TensorFlow's ApplyMomentum. Keras and the
/// velocity form keep  v <- mu * v - lr * g,  w <- w + v:  the same for a constant rate only.
struct momentum {
    double mu = 0.9;
    static constexpr auto members = std::tuple{member{"mu", &momentum::mu, ranges::fraction}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    static constexpr bool is_linear = true;
    GRADSTEP_INLINE state<double> decay() const { return {mu}; }

    template <class T> struct coeffs { T mu, rate; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(mu), T(now.rate)}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> c, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.mu), s.m, g);
        w = math::fnma(V(c.rate), s.m, w);
    }
};
static_assert(rule<momentum>);

} // namespace gradstep
