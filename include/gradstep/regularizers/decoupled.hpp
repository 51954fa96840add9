#pragma once
#include <cmath>

#include <gradstep/core/concepts.hpp>
#include <gradstep/core/idle.hpp>
#include <gradstep/core/members.hpp>

namespace gradstep {

/// Decoupled weight decay: the weight shrinks before the rule and the rule's state does not see it. With `adam` it is
/// AdamW.
///
///     w <- w * (1 - lr * rate)
///
/// Loshchilov & Hutter 2019, arXiv:1711.05101. As in torch the decay is scaled by the learning rate and comes first
/// (apex and FBGEMM fold it into the step: other rounding; bitsandbytes decays last on CUDA).
/// Range: rate >= 0 and lr * rate < 1 at every step.
struct decoupled {
    double rate = missing;
    static constexpr auto members = std::tuple{member{"rate", &decoupled::rate, ranges::non_negative}};
    static constexpr bool is_decay = true;
    static constexpr auto at_zero_gradient = idle_weight::scales;
    shrinkage shrink(step_info now) const { return {std::log1p(-now.rate * rate), 0}; }

    template <class T> struct coeffs { T keep; };
    template <class T> coeffs<T> prepare(step_info now) const {
        if (!(now.rate * rate < 1))
            throw value_error("decoupled: lr * rate = " + detail::text(now.rate) + " * " + detail::text(rate) +
                              ": must be < 1, or the weight changes its sign");
        return {T(std::fma(-now.rate, rate, 1))};
    }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> c, V& w, V&) { w = math::mul(w, V(c.keep)); }
};

} // namespace gradstep
