#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The factor of `decoupled`'s rate.
enum class decay_scale {
    learning_rate, ///< the step's learning rate, with rate_scale: the decay follows the schedule
    one,           ///< 1: the same decay at every step
};
template <> inline constexpr std::array enumerators<decay_scale>{"learning_rate", "one"};
} // namespace gradstep

namespace gradstep::detail {
// Throws value_error, in the name of a regularizer, for a decay that changes the sign of the
// weight.
GRADSTEP_INLINE void require_decay_below_one(char const* name, double rate, decay_scale scaled_by, double lr) {
    if (!((scaled_by == decay_scale::one ? 1 : lr) * rate < 1))
        fail<value_error>({name},
                          {scaled_by == decay_scale::one ? "rate: " + text(rate) + " is out of range"
                                                         : "lr * rate = " + text(lr) + " * " + text(rate)},
                          {"< 1, or the weight changes its sign"});
}
} // namespace gradstep::detail

namespace gradstep {
/// Decoupled weight decay: shrinks the weight before the rule, and does not enter the rule's state.
/// With `adam` it is AdamW.
///
///     scaled_by learning_rate:  w <- w * (1 - lr * rate)
///     scaled_by one:            w <- w * (1 - rate)
///
/// Loshchilov & Hutter 2019, arXiv:1711.05101. Their Algorithm 2 scales by the schedule multiplier,
/// not by the learning rate: use `one` for a constant multiplier. By default, as in torch, the
/// learning rate scales the decay, and the decay comes first. apex and FBGEMM fold it into the
/// step, which rounds differently; bitsandbytes on CUDA decays last, as `after_step` does.
/// Range: rate >= 0 and, after scaling, < 1 at every step.
struct decoupled {
    double rate = missing;
    decay_scale scaled_by = decay_scale::learning_rate;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &decoupled::rate, ranges::non_negative},
                            hyperparameter{"scaled_by", &decoupled::scaled_by}};
    static constexpr bool is_decay = true;
    static constexpr auto at_zero_gradient = zero_gradient_weight::scales;
    shrinkage shrink(step_info now) const { return {std::log1p(-scale(now) * rate), 0}; }

    /// The same regularizer, `factor` times as fast.
    decoupled decayed_by(double factor) const { return {rate * factor, scaled_by}; }

    template <class T> struct coeffs { T keep; };
    template <class T> coeffs<T> prepare(step_info now) const {
        detail::require_decay_below_one("decoupled", rate, scaled_by, now.rate);
        return {T(std::fma(-scale(now), rate, 1))};
    }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const& c, V& w, V&) {
        w = math::mul(w, V(c.keep));
    }

private:
    double scale(step_info now) const { return scaled_by == decay_scale::one ? 1 : now.rate; }
};
} // namespace gradstep
