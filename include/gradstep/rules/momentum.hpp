#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Momentum (heavy ball). Polyak 1964; Sutskever et al. 2013, section 2.
///
///     rate_place outside:   m <- mu * m + (1 - dampening) * g,         w <- w - lr * m
///     rate_place inside:    m <- mu * m - lr * (1 - dampening) * g,    w <- w + m
///
/// State: m, initially zero. The first step is not dampened: m = g. Ranges: 0 <= mu < 1,
/// 0 <= dampening < 1.
/// Other frameworks: the rate is outside the buffer in torch, optax, Paddle and TensorFlow's
/// ApplyMomentum, inside in Keras (the velocity form). Both are equal only for a constant rate.
/// Only torch has dampening.
struct momentum {
    double mu = 0.9, dampening = 0;
    learning_rate rate_place = learning_rate::outside;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"mu", &momentum::mu, ranges::fraction},
                            hyperparameter{"dampening", &momentum::dampening, ranges::fraction},
                            hyperparameter{"rate_place", &momentum::rate_place}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    static constexpr std::array code_maps{code_map::both_signs};
    static constexpr bool is_linear = true;
    GRADSTEP_INLINE state<double> decay() const { return {mu}; }

    template <class T> struct coeffs {
        T mu, gain, move; // m <- mu * m + gain * g,  w <- w + move * m
        GRADSTEP_INLINE bool is_default() const { return gain == T(1); }
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const undamped = now.t == 1 ? 1 : 1 - dampening;
        if (rate_place == learning_rate::inside) return {T(mu), T(-now.rate * undamped), T(1)};
        return {T(mu), T(undamped), T(-now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        apply_default(c, w, math::mul(V(c.gain), g), s);
    }
    template <class T, pack V> GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.mu), s.m, g);
        w = math::fma(V(c.move), s.m, w);
    }
};
static_assert(rule<momentum>);
} // namespace gradstep
