#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Optimistic gradient descent, for games such as the training of GANs: it subtracts the previous
/// gradient, so that players do not circle around each other. Popov 1980; Daskalakis et al. 2018,
/// arXiv:1711.00141; in the general form of Mokhtari, Ozdaglar & Pattathil 2019, arXiv:1901.08511.
///
///     d = (alpha + beta) * g - beta * p              alpha * g at the first step
///     w <- w - lr * d
///     p <- g
///
/// State: p, the previous gradient, initially zero. Ranges: alpha, beta finite and >= 0; with
/// beta = 0 it is `sgd` with a rate of alpha * lr. The step is linear, so tables catch up exactly:
/// one step without gradient moves the weight by lr * beta * p, and the next ones do not.
/// Other frameworks: optax has p = g at the first step, which is the same.
struct optimistic_sgd {
    double alpha = 1, beta = 1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"alpha", &optimistic_sgd::alpha, ranges::non_negative},
                            hyperparameter{"beta", &optimistic_sgd::beta, ranges::non_negative}};

    template <class X> struct state { X p; };
    static constexpr std::array state_names{"p"};
    static constexpr bool is_linear = true;
    GRADSTEP_INLINE state<double> decay() const { return {0}; }

    template <class T> struct coeffs { T of_g, of_p, rate; };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const optimism = now.t == 1 ? 0 : beta;
        return {T(alpha + optimism), T(optimism), T(now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        V const d = math::fnma(V(c.of_p), s.p, V(c.of_g) * g);
        w = math::fnma(V(c.rate), d, w);
        s.p = g;
    }
};
static_assert(rule<optimistic_sgd>);
} // namespace gradstep
