#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/regularizers/decoupled.hpp>

namespace gradstep {
/// Cautious weight decay: `decoupled` for the weights that the rule does not move away from zero.
/// Chen et al. 2025, arXiv:2510.12402, Algorithm 1.
///
///     w' <- rule(w, g)
///     w  <- sgn(w) * w' <= |w| ? w' - lr * rate * w : w'       or rate * w, as scaled_by says
///
/// The paper's condition is u * w >= 0, with the update u = (w - w') / lr. A weight that the rule
/// leaves unchanged decays (u = 0). So does a weight whose update is lost by rounding. w is the
/// weight that the rule was given, after the regularizers that act before it; in `all_of`, w' also
/// contains what the regularizers to its left did after the rule.
///
/// Other implementations apply the condition to m instead of u, or require u * w > 0. For adam, m
/// and u have the same sign.
///
/// Tables: without gradient it is `decoupled` if the rule then leaves the weight, so that `exact`
/// works with sgd, adagrad and the other rules that do. With a rule that still moves the weight,
/// such as momentum, the condition depends on each step: use `replay` or `touch_only`.
/// Range: rate >= 0 and, after scaling, < 1 at every step.
struct cautious_decay {
    double rate = missing;
    decay_scale scaled_by = decay_scale::learning_rate;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &cautious_decay::rate, ranges::non_negative},
                            hyperparameter{"scaled_by", &cautious_decay::scaled_by}};
    static constexpr bool is_decay = true;
    static constexpr auto at_zero_gradient = zero_gradient_weight::scales_at_rest;
    shrinkage shrink(step_info now) const { return {std::log1p(-scaled_rate(now)), 0}; }

    /// The same regularizer, `factor` times as fast.
    cautious_decay decayed_by(double factor) const { return {rate * factor, scaled_by}; }

    template <class T> struct coeffs { T decay; };
    template <class T> coeffs<T> prepare(step_info now) const {
        detail::require_decay_below_one("cautious_decay", rate, scaled_by, now.rate);
        return {T(scaled_rate(now))};
    }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V const& old, V& w) {
        w = math::select(math::multiply_sign(w, old) <= math::abs(old), math::fnma(V(c.decay), old, w), w);
    }

private:
    double scaled_rate(step_info now) const { return scaled_by == decay_scale::one ? rate : now.rate * rate; }
};
} // namespace gradstep
