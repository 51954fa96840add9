#pragma once
#include <gradstep/policy/describe.hpp>
#include <gradstep/regularizers/decoupled.hpp>

namespace gradstep {
/// `decoupled` after the rule's step instead of before it: the decay includes the change of this
/// step.
///
///     w <- rule(w, g),    w <- w * (1 - lr * rate)      or by 1 - rate, as its scaled_by says
///
/// bitsandbytes on CUDA uses this order. Without a gradient, and with a rule that then changes
/// nothing, both orders give the same result.
template <class Decay> struct after_step {
    Decay decay;
    static constexpr auto hyperparameters = hyperparameter_list{hyperparameter{"decay", &after_step::decay}};
    static constexpr bool is_decay = true;
    static_assert(std::is_same_v<Decay, decoupled>,
                  "gradstep: after_step: the argument is not decoupled; expected decoupled, since proximal comes after "
                  "the step by itself, and what enters the gradient comes before it");

    static constexpr auto at_zero_gradient = decoupled::at_zero_gradient;
    shrinkage shrink(step_info now) const { return decay.shrink(now); }

    /// The same regularizer, `factor` times as fast.
    after_step decayed_by(double factor) const { return {decay.decayed_by(factor)}; }

    template <class T> using coeffs = decoupled::coeffs<T>;
    template <class T> coeffs<T> prepare(step_info now) const { return decay.template prepare<T>(now); }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V& w) { w = math::mul(w, V(c.keep)); }
};
template <class Decay> after_step(Decay) -> after_step<Decay>;
// Not a copy: does not compile.
template <class Decay> after_step(after_step<Decay>) -> after_step<after_step<Decay>>;
} // namespace gradstep
