#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// RAdam: Adam without its second moment until its estimate is good enough. Liu et al. 2020,
/// arXiv:1908.03265, Algorithm 2.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     rho_inf = 2 / (1 - beta2) - 1,    rho = rho_inf - 2 * t * beta2^t / (1 - beta2^t)
///     rho > 5:    r = sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
///                 w <- w - lr * r / (1 - beta1^t) * m / root
///     else:       w <- w - lr / (1 - beta1^t) * m
///
/// root as in `adam`, by epsilon_place:
///
///     sqrt(v / (1 - beta2^t)) + epsilon,  sqrt(v / (1 - beta2^t) + epsilon),
///     or (sqrt(v) + epsilon) / sqrt(1 - beta2^t)
///
/// State: m, v, initially zero. Ranges as in `adam`. The paper's threshold is 4; all frameworks use
/// 5.
/// Other frameworks: epsilon-hat in torch and Paddle, outside in optax.
struct radam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &radam::beta1, ranges::fraction},
                            hyperparameter{"beta2", &radam::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &radam::epsilon, ranges::non_negative},
                            hyperparameter{"epsilon_place", &radam::epsilon_place, epsilon_positions::corrected}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T rate, rectifies; // 1; 0 if v is not used
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const bias = detail::bias(beta2, now.t), rate = now.rate / detail::bias(beta1, now.t);
        double const longest = 2 / (1 - beta2) - 1;
        double const length = longest - 2 * static_cast<double>(now.t) * (1 - bias) / bias;
        coeffs<T> c{
            moving_average<T>(beta1), moving_average<T>(beta2), T(rate), T(length > 5), {epsilon, epsilon_place, bias}};
        if (length > 5)
            c.rate =
                T(rate * std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)));
        return c;
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        auto const rectifies = (V(c.rectifies) != V(0)) | (s.v != s.v); // NaN must not be ignored
        V const root = math::select(rectifies, c.root.corrected(s.v), V(1));
        w = math::fnma(V(c.rate), math::div(s.m, root), w);
    }
};
static_assert(rule<radam>);
} // namespace gradstep
