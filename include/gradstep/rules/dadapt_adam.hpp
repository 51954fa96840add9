#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// D-Adaptation of Adam: Adam that estimates its own learning rate. Defazio & Mishchenko 2023,
/// arXiv:2301.07733, Algorithm 5. With b = sqrt(beta2) and c = sqrt(1 - beta2^t) / (1 - beta1^t)
/// with use_bias_correction, else 1:
///
///     q = d * lr * c
///     r <- b * r + (1 - b) * sum(q * g * s / (sqrt(v) + epsilon))       sums over the whole model
///     m <- beta1 * m + (1 - beta1) * q * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     s <- b * s + (1 - b) * q * g
///     d_hat = r / ((1 - b) * sum(|s|))
///     d <- max(d, min(d_hat, d * growth_rate))
///     w <- w - m / (sqrt(v) + epsilon)
///
/// While all s are 0, r and d do not change. The learning rate is a factor of d: use the schedule
/// `constant{1}`, or one that begins with 1. Regularizers see q as the learning rate, so
/// `decoupled` is the weight decay of the paper.
///
/// State: m, v, s, initially zero; m contains the rates of its steps. d, initially d0, and r,
/// initially 0, are the clock's state: a checkpoint and `clock()` contain them, and `seek` needs
/// them. Ranges: 0 <= beta1, beta2 < 1; epsilon >= 0; d0 > 0; growth_rate >= 1, or infinite.
/// Model-wise: one call of a step is a whole model. Tables, averages around the rule and sharded
/// training reject it.
/// Other frameworks: equal to dadaptation.DAdaptAdam, which skips steps with rate 0 (here the
/// averages go on), and to optax.contrib.dadapt_adamw, which always corrects the bias.
struct dadapt_adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, d0 = 1e-6, growth_rate = std::numeric_limits<double>::infinity();
    bool use_bias_correction = false;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &dadapt_adam::beta1, ranges::fraction},
                            hyperparameter{"beta2", &dadapt_adam::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &dadapt_adam::epsilon, ranges::non_negative},
                            hyperparameter{"d0", &dadapt_adam::d0, ranges::constant(ranges::positive)},
                            hyperparameter{"growth_rate", &dadapt_adam::growth_rate, ranges::at_least_one_or_infinite},
                            hyperparameter{"use_bias_correction", &dadapt_adam::use_bias_correction}};
    static constexpr bool counts_steps = true;

    template <class X> struct state { X m, v, s; };
    static constexpr std::array state_names{"m", "v", "s"};

    static constexpr std::array clock_state_names{"d", "r"};
    static constexpr bool clock_state_is_signed = true; // r
    GRADSTEP_INLINE clock_state advance(step_info now) const { return now.t == 1 ? clock_state{d0} : now.state; }

    template <class T> struct coeffs {
        T beta1, first;
        moving_average<T> second;
        T root, share, rate, epsilon;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const q = regularizer_rate(now), root = std::sqrt(beta2);
        return {T(beta1), T((1 - beta1) * q),    moving_average<T>(beta2), T(root), T((1 - root) * q),
                T(q),     never_zero<T>(epsilon)};
    }
    /// q, the learning rate of the step.
    GRADSTEP_INLINE double regularizer_rate(step_info now) const {
        double const c = use_bias_correction ? std::sqrt(detail::bias(beta2, now.t)) / detail::bias(beta1, now.t) : 1;
        return now.state[0] * now.rate * c;
    }

    template <class X> struct partial_sums { X r, s; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V, V g, state<V> const& s) {
        V const scaled = math::div(s.s, math::sqrt(s.v) + V(c.epsilon));
        return {math::wide_product(V(c.rate) * g, scaled), math::wide_abs(next_s(c, g, s.s))};
    }
    GRADSTEP_INLINE clock_state settle(std::int64_t, clock_state const& before,
                                       partial_sums<double> const& sums) const {
        if (sums.s == 0) return before;
        double const d = before[0], root = std::sqrt(beta2);
        double const r = math::mul(root, before[1]) + math::mul(1 - root, sums.r), d_hat = r / ((1 - root) * sums.s);
        return {std::max(d, std::min(d_hat, d * growth_rate)), r};
    }
    /// Nothing: the step uses the d before it.
    template <class X> struct settled {};
    template <class T> settled<T> finalize(step_info, clock_state const&) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, settled<T>, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.beta1), s.m, V(c.first) * g);
        s.v = c.second.of_square(s.v, g);
        s.s = next_s(c, g, s.s);
        w = w - math::div(s.m, math::sqrt(s.v) + V(c.epsilon));
    }

private:
    template <class T, pack V> GRADSTEP_HD static V next_s(coeffs<T> const& c, V g, V s) {
        return math::fma(V(c.root), s, V(c.share) * g);
    }
};
static_assert(model_wise_rule<dadapt_adam>);
} // namespace gradstep
