#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Gradient descent with annealed noise in the gradient. Neelakantan, Vilnis, Le, Sutskever,
/// Kaiser, Kurach & Martens 2015, arXiv:1511.06807, eq. 1 and 2.
///
///     sigma <- sqrt(eta / t^gamma)
///     w <- w - lr * g,    w <- w - (lr * sigma) * n      n standard normal, new for each element and step
///
/// No state. Ranges: eta >= 0, gamma >= 0. The paper takes eta from {0.01, 0.3, 1} and
/// gamma = 0.55. It counts steps from 0, as sigma^2 = eta / (1 + t)^gamma. Unlike in `sgld`, the
/// noise shrinks with the learning rate itself and not with its root.
///
/// n, tables and ids: as in `sgld`. With `row_steps`, t counts the steps of the row.
/// Other frameworks: the numbers of optax' noisy_sgd, apart from its random generator; optax also
/// has the noise, add_noise, before other rules.
struct noisy_sgd {
    double eta = 0.01, gamma = 0.55;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"eta", &noisy_sgd::eta, ranges::non_negative},
                            hyperparameter{"gamma", &noisy_sgd::gamma, ranges::non_negative}};

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};

    template <class T> struct coeffs { T rate, sigma; };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const variance = eta * std::pow(static_cast<double>(now.t), -gamma);
        return {T(now.rate), T(now.rate * std::sqrt(variance))};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&, V noise) {
        w = math::fnma(V(c.sigma), noise, math::fnma(V(c.rate), g, w));
    }
};
static_assert(noisy_rule<noisy_sgd>);
} // namespace gradstep
