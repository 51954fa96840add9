#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The quantity whose maximum `amsgrad` keeps.
enum class maximum {
    raw,       ///< v, which is bias-corrected afterwards, as in the paper's code
    corrected, ///< v / (1 - beta2^t)
};
template <> inline constexpr std::array enumerators<maximum>{"raw", "corrected"};

/// AMSGrad: Adam whose second moment never decreases. Reddi, Kale & Kumar 2018, ICLR, Algorithm 2,
/// with bias corrections.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     maximum_of raw:         v_max <- max(v_max, v),    v_hat = v_max / (1 - beta2^t)
///                corrected:   v_max <- max(v_max, v / (1 - beta2^t)),    v_hat = v_max
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v_hat) + epsilon)     epsilon_place as in `adam`
///
/// bias_correction = false: 1 in place of both 1 - beta^t, as in the paper.
///
/// State: m, v, v_max, initially zero. Ranges as in `adam`.
/// Other frameworks: the raw maximum in torch, Keras and Paddle; the corrected maximum in optax;
/// Keras uses epsilon-hat.
struct amsgrad {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    maximum maximum_of = maximum::raw;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &amsgrad::beta1, ranges::fraction},
                            hyperparameter{"beta2", &amsgrad::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &amsgrad::epsilon, ranges::non_negative},
                            hyperparameter{"epsilon_place", &amsgrad::epsilon_place, epsilon_positions::corrected},
                            hyperparameter{"maximum_of", &amsgrad::maximum_of},
                            hyperparameter{"bias_correction", &amsgrad::bias_correction}};

    template <class X> struct state { X m, v, v_max; };
    static constexpr std::array state_names{"m", "v", "v_max"};
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign, code_map::one_sign};
    // V falls below v_max, which does not change.
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2, 1}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T rate, correction; // of v before the maximum
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const bias = detail::bias(beta2, now.t, bias_correction);
        bool const raw = maximum_of == maximum::raw;
        root_terms<T> root(epsilon, epsilon_place, bias);
        if (!raw) root.scale = T(1);
        if (!raw && epsilon_place == gradstep::epsilon::inside) root.inside = never_zero<T>(epsilon);
        return {moving_average<T>(beta1), moving_average<T>(beta2),
                T(now.rate / detail::bias(beta1, now.t, bias_correction)), T(raw ? 1 : 1 / bias), root};
    }
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const {
        return detail::with_smallest_root<T>(*this, from, to);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        s.v_max = math::maximum(math::mul(V(c.correction), s.v), s.v_max);
        w = math::fnma(V(c.rate), math::div(s.m, c.root.corrected(s.v_max)), w);
    }
};
static_assert(rule<amsgrad>);
} // namespace gradstep
