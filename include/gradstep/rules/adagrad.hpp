#pragma once
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/idle.hpp>
#include <gradstep/core/members.hpp>

namespace gradstep {

/// Adagrad. Duchi, Hazan & Singer 2011, JMLR 12, section 5 (diagonal form).
///
///     n <- n + g^2
///     w <- w - lr * g / (sqrt(n) + epsilon)
///
/// State: n, initial_accumulator at the start. Ranges: epsilon >= 0, initial_accumulator >= 0. With epsilon = 0 and
/// n = 0 the step is 0, not 0/0.
/// Differs elsewhere: epsilon outside the root as in torch (1e-10) and FBGEMM (1e-8); Keras and optax put 1e-7 inside
/// the root and start n at 0.1.
struct adagrad {
    double epsilon = 1e-10, initial_accumulator = 0;
    static constexpr auto members =
        std::tuple{member{"epsilon", &adagrad::epsilon, ranges::non_negative},
                   member{"initial_accumulator", &adagrad::initial_accumulator, ranges::non_negative}};
    static constexpr auto at_zero_gradient = idle::stands;

    template <class X> struct state { X n; };
    static constexpr std::array state_names{"n"};
    template <pack V> GRADSTEP_HD state<V> initialize(V) const {
        return {V(typename pack_traits<V>::value_type(initial_accumulator))};
    }

    template <class T> struct coeffs { T rate, epsilon; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.rate), never_zero<T>(epsilon)}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> c, V& w, V g, state<V>& s) {
        s.n = math::fma(g, g, s.n);
        w = math::fnma(V(c.rate), math::div(g, math::sqrt(s.n) + V(c.epsilon)), w);
    }
};
static_assert(rule<adagrad>);

} // namespace gradstep
