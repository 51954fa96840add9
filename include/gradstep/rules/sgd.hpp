#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Stochastic gradient descent. Robbins & Monro 1951.
///
///     w <- w - lr * g
///
/// State: none. With momentum see `momentum` and `nesterov`.
struct sgd {
    static constexpr auto at_zero_gradient = zero_gradient_effect::no_op;
    static constexpr bool is_linear = true;

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};

    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.rate)}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = math::fnma(V(c.rate), g, w);
    }
};
static_assert(rule<sgd>);
} // namespace gradstep
