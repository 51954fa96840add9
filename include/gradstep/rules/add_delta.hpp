#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Adds a change of the weight that was computed elsewhere: by a worker of a parameter server, or
/// in a round of Geo-SGD.
///
///     w <- w + lr * g
///
/// State: none. Also works on int32 and int64 elements (counters): rate and gradient_scale must
/// then be whole numbers, and sums wrap around.
struct add_delta {
    static constexpr auto at_zero_gradient = zero_gradient_effect::no_op;
    static constexpr bool is_linear = true;
    static constexpr bool takes_integers = true;

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};

    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.rate)}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = math::fma(V(c.rate), g, w);
    }
};
static_assert(rule<add_delta>);
} // namespace gradstep
