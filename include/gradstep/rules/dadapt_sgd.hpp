#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// D-Adaptation of SGD: SGD with momentum that estimates its own learning rate. Defazio &
/// Mishchenko 2023, arXiv:2301.07733, Algorithm 4.
///
///     q = d * lr / g0_norm
///     r <- r + sum(q * g * s)                                   sums over the whole model
///     s <- s + q * g
///     d_hat = 2 * r / |s|
///     d <- max(d, min(d_hat, d * growth_rate))
///     w <- mu * w + (1 - mu) * (x0 - s)
///
/// g0_norm is |g| of the first step whose gradient is not 0; d does not change in it, nor while all
/// s are 0. The learning rate is a factor of d: use the schedule `constant{1}`, or one that begins
/// with 1.
///
/// State: s, initially zero, which contains the rates of its steps; x0, the initial weight. d,
/// initially d0, r and g0_norm, initially 0, are the clock's state: a checkpoint and `clock()`
/// contain them, and `seek` needs them. If you set weights later, x0 becomes w + s, so that w stays
/// up to rounding (`updater::weights_set`). Ranges: 0 <= mu < 1, d0 > 0; growth_rate >= 1, or
/// infinite. The weight follows x0 - s, so regularizers that change the weight itself (decoupled,
/// after_step, cautious_decay, proximal, clamp_weight) are rejected: `l2` is the weight decay.
/// Model-wise: one call of a step is a whole model. Tables, averages around the rule and sharded
/// training reject it.
/// Other frameworks: equal to dadaptation.DAdaptSGD, where mu is `momentum`, except that its first
/// g0_norm is of the gradient without weight decay, and that it stops at a gradient of 0.
struct dadapt_sgd {
    double mu = 0, d0 = 1e-6, growth_rate = std::numeric_limits<double>::infinity();
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"mu", &dadapt_sgd::mu, ranges::fraction},
                            hyperparameter{"d0", &dadapt_sgd::d0, ranges::constant(ranges::positive)},
                            hyperparameter{"growth_rate", &dadapt_sgd::growth_rate, ranges::at_least_one_or_infinite}};
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state { X s, x0; };
    static constexpr std::array state_names{"s", "x0"};
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {V(0), w}; }
    // The weight follows x0 - s. s stays, since the estimate of d compares it with r.
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.x0 = w + s.s; }

    static constexpr std::array clock_state_names{"d", "r", "g0_norm"};
    static constexpr bool clock_state_is_signed = true; // r
    GRADSTEP_INLINE clock_state advance(step_info now) const { return now.t == 1 ? clock_state{d0} : now.state; }

    // `share` is q, or 1 before g0_norm is known: the second sum is then |g|^2.
    template <class T> struct coeffs { T share, move; };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(now.state[2] == 0 ? 1 : q(now, now.state[2])), T(1 - mu)};
    }

    template <class X> struct partial_sums { X r, s; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V, V g, state<V> const& s) {
        V const scaled = V(c.share) * g;
        return {math::wide_product(scaled, s.s), math::wide_square(math::fma(V(c.share), g, s.s))};
    }
    GRADSTEP_INLINE clock_state settle(std::int64_t, clock_state const& before,
                                       partial_sums<double> const& sums) const {
        auto const [d, r, norm, unused] = before;
        if (sums.s == 0) return before;
        if (norm == 0) return {d, r, std::sqrt(sums.s)};
        double const sum = r + sums.r, d_hat = 2 * sum / std::sqrt(sums.s);
        return {std::max(d, std::min(d_hat, d * growth_rate)), sum, norm};
    }
    /// q.
    template <class T> T finalize(step_info now, clock_state const& after) const {
        return after[2] == 0 ? T(0) : finite_number<T>(q(now, after[2]));
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        s.s = math::fma(V(settled), g, s.s);
        w = math::fma(V(c.move), (s.x0 - s.s) - w, w);
    }

private:
    // Before the norm is known it is 0. Compilers may divide by it and not use the quotient, which
    // must not trap: smaller norms count as 1e-290.
    GRADSTEP_INLINE static double q(step_info now, double norm) {
        return now.state[0] * now.rate / std::max(norm, 1e-290);
    }
};
static_assert(model_wise_rule<dadapt_sgd>);
} // namespace gradstep
