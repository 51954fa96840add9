#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// LAMB. You et al. 2020, arXiv:1904.00962, Algorithm 2, with phi the identity.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     u <- m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay * w
///     r <- |w| / |u|                              norms over the tensor (a row of a table); 1 if one of them is 0
///     w <- w - lr * r * u
///
/// bias_correction = false: 1 in place of both 1 - beta^t, an option of this name in timm, apex and
/// DeepSpeed.
///
/// State: m, v, initially zero. Ranges: 0 <= beta1, beta2 < 1; epsilon, decay >= 0. The decay is
/// part of the norm, so no regularizer can replace it.
/// Other frameworks: equal to optax.lamb and Paddle. apex clips by the global norm first and scales
/// only if decay is not 0. DeepSpeed leaves the bias correction out of the norm and clamps r to
/// [0.01, 10].
struct lamb {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, decay = 0;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &lamb::beta1, ranges::fraction},
                            hyperparameter{"beta2", &lamb::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &lamb::epsilon, ranges::non_negative},
                            hyperparameter{"decay", &lamb::decay, ranges::non_negative},
                            hyperparameter{"bias_correction", &lamb::bias_correction}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T m_scale, decay, rate;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(1 / detail::bias(beta1, now.t, bias_correction)),
                T(decay),
                T(now.rate),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t, bias_correction)}};
    }

    template <class X> struct partial_sums { X weight, update; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V w, V g, state<V> s) {
        return {math::wide_square(w), math::wide_square(advance(c, w, g, s))};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double, gradstep::row_state<lamb, T>&) {
        double const w = math::sqrt(row.weight), u = math::sqrt(row.update);
        double const ratio = w == 0 || u == 0 ? 1 : finite_quotient(w, u);
        return finite_number<T>(double(c.rate) * ratio);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        w = math::fnma(V(settled), advance(c, w, g, s), w);
    }

private:
    // Updates the moments and returns the direction u.
    template <class T, pack V> GRADSTEP_HD static V advance(coeffs<T> const& c, V w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        V const of_moments = math::div(math::mul(V(c.m_scale), s.m), c.root.corrected_outside(s.v));
        return math::fma(V(c.decay), w, of_moments);
    }
};
static_assert(row_wise_rule<lamb>);
} // namespace gradstep
