#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// No regularizer. The default of `make_updater`.
struct none {
    static constexpr auto at_zero_gradient = zero_gradient_weight::no_op;

    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(step_info) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const&, V&, V&) {}
};
} // namespace gradstep
