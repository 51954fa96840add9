#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// AdEMAMix: Adam with a second, slow average of the gradient. Pagliardini, Ablin & Grangier 2024,
/// arXiv:2409.03137, Algorithm 1 and the schedulers of section 3.
///
///     warmup = 0 or t >= warmup:   a = alpha,        b = beta3
///     else, with r = t / warmup:   a = r * alpha,    b = min(beta3, exp(log(beta1) * log(beta3) /
///                                                    ((1 - r) * log(beta3) + r * log(beta1))))
///     m1 <- beta1 * m1 + (1 - beta1) * g
///     m2 <- b * m2 + (1 - b) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     w <- w - lr * (m1 / (1 - beta1^t) + a * m2) / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// State: m1, m2, v, initially zero; m2 has no bias correction. Ranges: 0 <= beta1, beta2,
/// beta3 < 1; alpha, warmup >= 0; epsilon as in `adam`. The schedulers are computed once a step, in
/// double. In a warmup the half-life of b rises almost linearly from beta1's to beta3's. With
/// beta1 = 0, b is beta3^(1 / r), the limit. Tables support `replay` if b does not change: with
/// warmup = 0, or with beta3 <= beta1.
/// Other frameworks: warmup is T_alpha = T_beta3 of the paper, which uses the number of all steps.
/// The authors' code adds 1e-8 to the betas under the logarithms. optax takes a and b as schedules
/// of t - 1.
struct ademamix {
    double beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999, alpha = 5, epsilon = 1e-8;
    std::int64_t warmup = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &ademamix::beta1, ranges::fraction},
                            hyperparameter{"beta2", &ademamix::beta2, ranges::fraction},
                            hyperparameter{"beta3", &ademamix::beta3, ranges::fraction},
                            hyperparameter{"alpha", &ademamix::alpha, ranges::non_negative},
                            hyperparameter{"epsilon", &ademamix::epsilon, ranges::non_negative},
                            hyperparameter{"warmup", &ademamix::warmup, ranges::count}};

    template <class X> struct state { X m1, m2, v; };
    static constexpr std::array state_names{"m1", "m2", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta3, beta2}; }
    GRADSTEP_INLINE void check_decay() const {
        if (warmup != 0 && beta3 > beta1)
            detail::fail<value_error>({"ademamix.warmup"}, {warmup, " is not allowed"},
                                      {"0 to be replayed, since beta3 changes during a warmup; or use touch_only"});
    }

    /// b of the step with r = t / warmup < 1.
    GRADSTEP_INLINE double slow_beta(double r) const {
        if (beta3 <= beta1) return beta3;
        double const end = std::log(beta3);
        if (beta1 == 0) return std::exp(end / r);
        double const start = std::log(beta1);
        return std::exp(start * end / std::fma(1 - r, end, r * start));
    }

    template <class T> struct coeffs {
        moving_average<T> fast, slow, second;
        T of_m2, rate;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const bias = detail::bias(beta1, now.t);
        // Never a division by 0, which a compiler can compute ahead of a condition.
        double const length = static_cast<double>(std::max<std::int64_t>(warmup, 1));
        double const r = std::min(1.0, static_cast<double>(now.t) / length);
        return {moving_average<T>(beta1), moving_average<T>(r < 1 ? slow_beta(r) : beta3),
                moving_average<T>(beta2), T(r * alpha * bias),
                T(now.rate / bias),       {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t)}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m1 = c.fast(s.m1, g);
        s.m2 = c.slow(s.m2, g);
        s.v = c.second.of_square(s.v, g);
        w = math::fnma(V(c.rate), math::div(math::fma(V(c.of_m2), s.m2, s.m1), c.root.corrected_outside(s.v)), w);
    }
};
static_assert(rule<ademamix>);
} // namespace gradstep
