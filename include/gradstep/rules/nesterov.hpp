#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Nesterov's accelerated gradient, written at the look-ahead point. Nesterov 1983; Sutskever et
/// al. 2013, eq. 3-4, in the variables of Bengio et al. 2013 (arXiv:1212.0901, eq. 7).
///
///     rate_place outside:   m <- mu * m + (1 - dampening) * g,         w <- w - lr * (g + mu * m)
///     rate_place inside:    m <- mu * m - lr * (1 - dampening) * g,    w <- w + (mu * m - lr * g)
///
/// State: m, initially zero. The first step is not dampened: m = g. Ranges: 0 <= mu < 1,
/// 0 <= dampening < 1.
/// Other frameworks: the rate is outside the buffer in torch, optax and Paddle, inside in Keras
/// (the velocity form). Both are equal only for a constant rate. torch rejects dampening here.
struct nesterov {
    double mu = 0.9, dampening = 0;
    learning_rate rate_place = learning_rate::outside;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"mu", &nesterov::mu, ranges::fraction},
                            hyperparameter{"dampening", &nesterov::dampening, ranges::fraction},
                            hyperparameter{"rate_place", &nesterov::rate_place}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    static constexpr std::array code_maps{code_map::both_signs};
    static constexpr bool is_linear = true;
    GRADSTEP_INLINE state<double> decay() const { return {mu}; }

    template <class T> struct coeffs {
        T mu, gain, ahead, move; // m <- mu * m + gain * g,  w <- w + move * (ahead * g + mu * m)
        GRADSTEP_INLINE bool is_default() const { return gain == T(1) && ahead == T(1); }
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const undamped = now.t == 1 ? 1 : 1 - dampening;
        if (rate_place == learning_rate::inside) return {T(mu), T(-now.rate * undamped), T(-now.rate), T(1)};
        return {T(mu), T(undamped), T(1), T(-now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.mu), s.m, V(c.gain) * g);
        w = math::fma(V(c.move), math::fma(V(c.mu), s.m, V(c.ahead) * g), w);
    }
    template <class T, pack V> GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.mu), s.m, g);
        w = math::fma(V(c.move), math::fma(V(c.mu), s.m, g), w);
    }
};
static_assert(rule<nesterov>);
} // namespace gradstep
