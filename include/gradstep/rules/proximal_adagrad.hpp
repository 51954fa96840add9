#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Adagrad with l1 and l2 as a proximal step in its own metric. Duchi & Singer 2009 (FOBOS); Duchi,
/// Hazan & Singer 2011, JMLR 12, section 5.1.
///
///     n <- n + g^2,    s = sqrt(n),    x = w - lr / s * g
///     w <- sgn(x) * max(|x| - lr / s * l1, 0) / (1 + lr / s * l2)          and w where n = 0
///
/// State: n, initially initial_accumulator. Ranges: all >= 0. Without gradient a weight keeps
/// shrinking, by its own n: tables support only `touch_only`. If you want the learning rate as the
/// threshold, use adagrad with `proximal`: rows then catch up exactly.
/// Other frameworks: this is TensorFlow's form.
struct proximal_adagrad {
    double l1 = 0, l2 = 0, initial_accumulator = 0.1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"l1", &proximal_adagrad::l1, ranges::non_negative},
                            hyperparameter{"l2", &proximal_adagrad::l2, ranges::non_negative},
                            hyperparameter{"initial_accumulator", &proximal_adagrad::initial_accumulator,
                                           ranges::constant(ranges::non_negative)}};

    template <class X> struct state { X n; };
    static constexpr std::array state_names{"n"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::one_sign};
    GRADSTEP_HD state<double> initial() const { return {initial_accumulator}; }

    template <class T> struct coeffs { T rate, l1, l2; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.rate), T(l1), T(l2)}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        using namespace math;
        s.n = fma(g, g, s.n);
        auto const is_kept = s.n == V(0);
        // If it is kept, divides by any number except 0 and 1: with 1, clang divides all lanes by
        // the root and selects afterwards.
        V const rate = div(V(c.rate), select(is_kept, V(2), sqrt(s.n))), x = fnma(rate, g, w);
        V const shrunk = copysign(max(fnma(V(c.l1), rate, abs(x)), V(0)), x);
        // A weight that shrinks to zero is 0 and not -0.
        V const w_new = div(shrunk, fma(V(c.l2), rate, V(1))) + V(0);
        w = select(is_kept, w, w_new);
    }
};
static_assert(rule<proximal_adagrad>);
} // namespace gradstep
