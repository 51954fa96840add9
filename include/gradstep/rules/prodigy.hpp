#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Prodigy: Adam that estimates its own learning rate, from the distance to the initial weights.
/// Mishchenko & Defazio 2023, arXiv:2306.06101, Algorithm 4. With b3 = beta3, or sqrt(beta2) if
/// beta3 is 0, and c = sqrt(1 - beta2^t) / (1 - beta1^t) with use_bias_correction, else 1:
///
///     q = d * lr * c
///     r <- b3 * r + sum(d / d0 * q * g * (x0 - w))            sums over the whole model
///     m <- beta1 * m + (1 - beta1) * d * g
///     v <- beta2 * v + (1 - beta2) * (d * g)^2
///     s <- b3 * s + d / d0 * q * g                            safeguard_warmup: d / d0 * d * g
///     d_hat = d_coef * r / sum(|s|)
///     d <- max(d, d_hat)  while  d = d0
///     d_max <- max(d_max, d_hat),    d <- min(d_max, d * growth_rate)
///     w <- w - q * m / (sqrt(v) + d * epsilon)                q of the old d, epsilon of the new d
///
/// While all s are 0, r, d and d_max do not change. The learning rate is a factor of d: begin with
/// the schedule `constant{1}`, or a cosine from 1. Regularizers see q as the learning rate, so
/// `decoupled` is the weight decay of the paper.
///
/// State: m, v, s, initially zero; x0, the initial weight. d, d_max (initially d0) and r
/// (initially 0) are the clock's state: a checkpoint and `clock()` contain them, and `seek` needs
/// them. If you set weights later, x0 becomes the weight (`updater::weights_set`), and d stays.
/// Ranges: 0 <= beta1, beta2, beta3 < 1; epsilon >= 0; d0, d_coef > 0; growth_rate >= 1, or
/// infinite. Model-wise: one call of a step is a whole model. Tables, averages around the rule and
/// sharded training reject it.
/// Other frameworks: equal to prodigyopt.Prodigy with slice_p = 1, which skips steps with rate 0
/// (here the averages go on), and to optax.contrib.prodigy, which has no
/// growth_rate; optax always corrects the bias. prodigyopt has one rate for all tensors; here a
/// rate_scale also scales a tensor's share of r and s. With beta1 = 0, prodigyopt moves by the new
/// d times g instead of the m of the paper.
struct prodigy {
    double beta1 = 0.9, beta2 = 0.999, beta3 = 0, epsilon = 1e-8, d0 = 1e-6, d_coef = 1,
           growth_rate = std::numeric_limits<double>::infinity();
    bool use_bias_correction = false, safeguard_warmup = false;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &prodigy::beta1, ranges::fraction},
                            hyperparameter{"beta2", &prodigy::beta2, ranges::fraction},
                            hyperparameter{"beta3", &prodigy::beta3, ranges::fraction},
                            hyperparameter{"epsilon", &prodigy::epsilon, ranges::non_negative},
                            hyperparameter{"d0", &prodigy::d0, ranges::constant(ranges::positive)},
                            hyperparameter{"d_coef", &prodigy::d_coef, ranges::positive},
                            hyperparameter{"growth_rate", &prodigy::growth_rate, ranges::at_least_one_or_infinite},
                            hyperparameter{"use_bias_correction", &prodigy::use_bias_correction},
                            hyperparameter{"safeguard_warmup", &prodigy::safeguard_warmup}};
    static constexpr bool counts_steps = true;

    template <class X> struct state { X m, v, s, x0; };
    static constexpr std::array state_names{"m", "v", "s", "x0"};
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {V(0), V(0), V(0), w}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.x0 = w; }

    static constexpr std::array clock_state_names{"d", "d_max", "r"};
    static constexpr bool clock_state_is_signed = true; // r
    GRADSTEP_INLINE clock_state advance(step_info now) const { return now.t == 1 ? clock_state{d0, d0, 0} : now.state; }

    template <class T> struct coeffs { T beta1, first, beta2, second, beta3, share, safe_share, rate; };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const d = now.state[0], q = regularizer_rate(now);
        return {T(beta1),
                T(d * (1 - beta1)),
                T(beta2),
                T(d * d * (1 - beta2)),
                T(decay_of_sums()),
                T(d / d0 * q),
                T(d / d0 * (safeguard_warmup ? d : q)),
                T(q)};
    }
    /// q, the learning rate of the step.
    GRADSTEP_INLINE double regularizer_rate(step_info now) const {
        double const c = use_bias_correction ? std::sqrt(detail::bias(beta2, now.t)) / detail::bias(beta1, now.t) : 1;
        return now.state[0] * now.rate * c;
    }

    template <class X> struct partial_sums { X r, s; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V w, V g, state<V> const& s) {
        return {math::wide_product(V(c.share) * g, s.x0 - w), math::wide_abs(next_s(c, g, s.s))};
    }
    GRADSTEP_INLINE clock_state settle(std::int64_t, clock_state const& before,
                                       partial_sums<double> const& sums) const {
        auto const [d, d_max, r, unused] = before;
        if (sums.s == 0) return before;
        double const sum = math::mul(decay_of_sums(), r) + sums.r, d_hat = d_coef * sum / sums.s;
        double const most = std::max(d_max, d_hat), now = d == d0 ? std::max(d, d_hat) : d;
        return {std::min(most, now * growth_rate), most, sum, unused};
    }
    /// The epsilon of the step.
    template <class T> T finalize(step_info, clock_state const& after) const {
        return never_zero<T>(after[0] * epsilon);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.beta1), s.m, V(c.first) * g);
        s.v = math::fma(V(c.beta2), s.v, V(c.second) * g * g);
        s.s = next_s(c, g, s.s);
        w = math::fnma(V(c.rate), math::div(s.m, math::sqrt(s.v) + V(settled)), w);
    }

private:
    GRADSTEP_INLINE double decay_of_sums() const { return beta3 == 0 ? std::sqrt(beta2) : beta3; }
    template <class T, pack V> GRADSTEP_HD static V next_s(coeffs<T> const& c, V g, V s) {
        return math::fma(V(c.beta3), s, V(c.safe_share) * g);
    }
};
static_assert(model_wise_rule<prodigy>);
} // namespace gradstep
