#pragma once
#include <cmath>
#include <optional>

#include <gradstep/core/concepts.hpp>
#include <gradstep/core/idle.hpp>
#include <gradstep/core/members.hpp>

namespace gradstep {

/// Adam. Kingma & Ba 2015, arXiv:1412.6980, Algorithm 1. With `decoupled` it is AdamW (arXiv:1711.05101).
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// State: m, v, zero at the start; t counts from 1 as a 64-bit integer, the bias corrections are computed once a step in
/// double. Ranges: 0 <= beta1, beta2 < 1; epsilon >= 0 (with 0, a weight whose v is 0 stands still).
/// Differs elsewhere: epsilon outside the root and after the bias correction, as in the paper, torch and optax; Keras,
/// TensorFlow and torch's SparseAdam use the paper's epsilon-hat (before the correction).
struct adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    static constexpr auto members =
        std::tuple{member{"beta1", &adam::beta1, ranges::fraction}, member{"beta2", &adam::beta2, ranges::fraction},
                   member{"epsilon", &adam::epsilon, ranges::non_negative}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs { T beta1, gain1, beta2, gain2, rate, v_scale, epsilon; };
    template <class T> coeffs<T> prepare(step_info now) const {
        auto const t = static_cast<double>(now.t);
        double const m_bias = 1 - std::pow(beta1, t), v_bias = 1 - std::pow(beta2, t);
        return {T(beta1),
                T(1 - beta1),
                T(beta2),
                T(1 - beta2),
                T(now.rate / m_bias),
                T(1 / std::sqrt(v_bias)),
                never_zero<T>(epsilon)};
    }
    // Without gradient m / sqrt(v) falls by beta1 / sqrt(beta2) a step; the bias corrections are taken at their largest.
    template <class T> std::optional<coeffs<T>> furthest(step_info from, std::int64_t to) const {
        if (beta1 * beta1 > beta2) return {};
        coeffs<T> most = prepare<T>(from);
        most.v_scale = prepare<T>({to, from.rate}).v_scale;
        return most;
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> c, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.beta1), s.m, V(c.gain1) * g);
        s.v = math::fma(V(c.beta2), s.v, V(c.gain2) * g * g);
        V const root = math::fma(V(c.v_scale), math::sqrt(s.v), V(c.epsilon));
        w = math::fnma(V(c.rate), math::div(s.m, root), w);
    }
};
static_assert(rule<adam>);

} // namespace gradstep
