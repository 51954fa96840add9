#pragma once
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/idle.hpp>

namespace gradstep {

/// The gradient is a change of the weight that somebody else computed: a worker of a parameter server, a Geo-SGD round.
///
///     w <- w + lr * g
///
/// State: none. Works on int32 and int64 elements too (counters), where rate and gradient_scale must be whole numbers and
/// sums wrap around.
struct add_delta {
    static constexpr auto at_zero_gradient = idle::stands;
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
