#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The bias correction of the look-ahead momentum in `nesterov_adam`.
enum class momentum_bias {
    this_step, ///< 1 - beta1^t
    next_step, ///< 1 - beta1^(t + 1), since this part belongs to the next step
};
template <> inline constexpr std::array enumerators<momentum_bias>{"this_step", "next_step"};

/// Adam with Nesterov's look-ahead at constant beta1. Dozat 2016, "Incorporating Nesterov momentum
/// into Adam", ICLR workshop. `nadam` has the paper's schedule of beta1.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     bias = 1 - beta1^t,  or 1 - beta1^(t + 1) with `next_step`
///     w <- w - lr * (beta1 * m / bias + (1 - beta1) * g / (1 - beta1^t)) / root
///
/// root as in `adam`, by epsilon_place:
///
///     sqrt(v / (1 - beta2^t)) + epsilon,  sqrt(v / (1 - beta2^t) + epsilon),
///     or (sqrt(v) + epsilon) / sqrt(1 - beta2^t)
///
/// bias_correction = false: 1 in place of each 1 - beta^t.
///
/// State: m, v, initially zero. Ranges as in `adam`.
/// Other frameworks: this_step and epsilon-hat in TensorFlow's ApplyAdam(use_nesterov), next_step
/// in optax.
struct nesterov_adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    gradstep::momentum_bias momentum_bias = gradstep::momentum_bias::this_step;
    bool bias_correction = true;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"beta1", &nesterov_adam::beta1, ranges::fraction},
        hyperparameter{"beta2", &nesterov_adam::beta2, ranges::fraction},
        hyperparameter{"epsilon", &nesterov_adam::epsilon, ranges::non_negative},
        hyperparameter{"epsilon_place", &nesterov_adam::epsilon_place, epsilon_positions::corrected},
        hyperparameter{"momentum_bias", &nesterov_adam::momentum_bias},
        hyperparameter{"bias_correction", &nesterov_adam::bias_correction}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T of_m, of_g;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        std::int64_t const ahead = momentum_bias == gradstep::momentum_bias::next_step;
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(now.rate * beta1 / detail::bias(beta1, now.t + ahead, bias_correction)),
                T(now.rate * (1 - beta1) / detail::bias(beta1, now.t, bias_correction)),
                {epsilon, epsilon_place, detail::bias(beta2, now.t, bias_correction)}};
    }
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const {
        if (beta1 * beta1 > beta2) return {};
        return detail::with_smallest_root<T>(*this, from, to);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        w = w - math::div(math::fma(V(c.of_m), s.m, V(c.of_g) * g), c.root.corrected(s.v));
    }
};
static_assert(rule<nesterov_adam>);
} // namespace gradstep
