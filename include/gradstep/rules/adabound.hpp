#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// AdaBound: Adam whose rate for each weight is clipped to a range that narrows to the rate of SGD.
/// Luo, Xiong, Liu & Sun 2019, arXiv:1902.09843, Algorithm 2, as the authors' program computes it.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     r = sqrt(1 - beta2^t) / (1 - beta1^t) / (sqrt(v) + epsilon)
///     w <- w - lr * m * clip(r, final_ratio * (1 - 1 / (gamma * t + 1)), final_ratio * (1 + 1 / (gamma * t)))
///
/// bias_correction = false: 1 in place of both 1 - beta^t.
///
/// 1 / r is clipped to the inverse bounds, so that one division suffices and none is by 0. State:
/// m, v, initially zero. Ranges: 0 <= beta1, beta2 < 1; epsilon >= 0 (with 0 the bounds still limit
/// a step); gamma, final_ratio > 0. The final rate is final_ratio * lr: 0.1 with Adam's rate of
/// 1e-3.
/// Other frameworks: the authors' final_lr, 0.1, follows the schedule as final_lr * lr / base_lr;
/// final_ratio is final_lr / base_lr. The paper has no bias correction and divides the clipped rate
/// by sqrt(t). ensmallen computes the same as the authors' program.
struct adabound {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, gamma = 1e-3, final_ratio = 100;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adabound::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adabound::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &adabound::epsilon, ranges::non_negative},
                            hyperparameter{"gamma", &adabound::gamma, ranges::positive},
                            hyperparameter{"final_ratio", &adabound::final_ratio, ranges::positive},
                            hyperparameter{"bias_correction", &adabound::bias_correction}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T rate, scale, outside, smallest, largest; // of 1 / r
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const scale =
            detail::bias(beta1, now.t, bias_correction) / std::sqrt(detail::bias(beta2, now.t, bias_correction));
        double const progress = gamma * static_cast<double>(now.t);
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(now.rate),
                T(scale),
                T(epsilon * scale),
                never_zero<T>(progress / (progress + 1) / final_ratio),
                T((progress + 1) / progress / final_ratio)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        V const inverse = math::fma(V(c.scale), math::sqrt(s.v), V(c.outside));
        V const clipped = math::max(math::min(inverse, V(c.largest)), V(c.smallest));
        w = math::fnma(V(c.rate), math::div(s.m, clipped), w);
    }
};
static_assert(rule<adabound>);
} // namespace gradstep
