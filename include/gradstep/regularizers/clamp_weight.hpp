#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Keeps every weight in an interval: after the rule's step, projects it onto [low, high].
///
///     w <- min(max(w, low), high)        NaN stays NaN
///
/// This is the weight clipping of WGAN (Arjovsky et al. 2017, arXiv:1701.07875, Algorithm 1), and
/// what NNUE trainers do before weights become integers. `clamp_weight{0, infinity}` is Keras's
/// NonNeg. With a decay: `all_of{decoupled{0.01}, clamp_weight{-1.98, 1.98}}`.
///
/// It is no decay: a slice with `decay = false` keeps it. The weight is clamped in the dtype of the
/// arithmetic and then rounded to the dtype of the parameter, which can round a bound too. An
/// average of `averaged` sees the clamped weight. Tables: with `touch_only`, a row that begins
/// outside the interval stays there until its first own step; `replay` clamps in every step that it
/// repeats; there is no `exact`.
/// Ranges: low < infinity, high > -infinity, low <= high. Both are required, and can be infinite.
struct clamp_weight {
    double low = missing, high = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"low", &clamp_weight::low, ranges::finite_or_below_all},
                            hyperparameter{"high", &clamp_weight::high, ranges::finite_or_infinite}};
    static constexpr auto at_zero_gradient = zero_gradient_weight::moves;

    GRADSTEP_INLINE void check() const {
        if (low > high)
            detail::fail<value_error>({"clamp_weight.low"}, {low, " is above high = ", high}, {"low <= high"});
    }

    template <class T> struct coeffs { T low, high; };
    template <class T> coeffs<T> prepare(step_info) const { return {T(low), T(high)}; }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V& w) {
        w = math::min(math::max(w, V(c.low)), V(c.high));
    }
};
} // namespace gradstep
