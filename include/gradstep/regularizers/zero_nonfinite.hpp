#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Replaces NaN and infinity in the gradient by 0, after gradient_scale and the regularizers to its
/// left: `all_of{zero_nonfinite{}, clip_value{1.0}}`. Other elements are not affected.
///
///     g <- g is finite ? g : 0
///
/// It hides errors. `first_nonfinite` finds them; a parameter's `on_nonfinite` skips the whole step
/// instead.
struct zero_nonfinite {
    static constexpr auto at_zero_gradient = zero_gradient_weight::no_op;

    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(step_info) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const&, V&, V& g) {
        g = math::select(math::abs(g) <= V(largest_number<T>), g, V(0)); // false for NaN
    }
};
} // namespace gradstep
