#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Yogi: Adam whose second moment changes by steps of the size of g^2. Zaheer et al. 2018, NeurIPS,
/// "Adaptive methods for nonconvex optimization", Algorithm 2, with Adam's bias corrections.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- v - (1 - beta2) * sgn(v - g^2) * g^2
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// bias_correction = false: 1 in place of both 1 - beta^t, as in the paper.
///
/// State: m, v, both initially initial_accumulator. Ranges: 0 <= beta1, beta2 < 1; epsilon,
/// initial_accumulator >= 0.
/// Other frameworks: this is optax's form; the paper has none.
struct yogi {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-3, initial_accumulator = 1e-6;
    bool bias_correction = true;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"beta1", &yogi::beta1, ranges::fraction},
        hyperparameter{"beta2", &yogi::beta2, ranges::fraction},
        hyperparameter{"epsilon", &yogi::epsilon, ranges::non_negative},
        hyperparameter{"initial_accumulator", &yogi::initial_accumulator, ranges::constant(ranges::non_negative)},
        hyperparameter{"bias_correction", &yogi::bias_correction}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_HD state<double> initial() const { return {initial_accumulator, initial_accumulator}; }
    GRADSTEP_INLINE state<double> decay() const { return {beta1, 1}; }

    template <class T> struct coeffs {
        moving_average<T> first;
        T gain2, rate;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1),
                T(1 - beta2),
                T(now.rate / detail::bias(beta1, now.t, bias_correction)),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t, bias_correction)}};
    }
    // Without gradient, v does not change and m falls. Uses the largest bias corrections.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const {
        return detail::with_smallest_root<T>(*this, from, to);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        V const square = math::mul(g, g);
        s.m = c.first(s.m, g);
        s.v = math::fnma(V(c.gain2) * math::sign(s.v - square), square, s.v);
        w = math::fnma(V(c.rate), math::div(s.m, c.root.corrected_outside(s.v)), w);
    }
};
static_assert(rule<yogi>);
} // namespace gradstep
