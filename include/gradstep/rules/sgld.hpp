#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Stochastic gradient Langevin dynamics: gradient descent whose noise makes the weights samples of
/// exp(-U / temperature), for the gradient g of U. Welling & Teh 2011, "Bayesian learning via
/// stochastic gradient Langevin dynamics", eq. 4.
///
///     sigma <- sqrt(2 * lr * temperature)
///     w <- w - lr * g,    w <- w + sigma * n         n standard normal, new for each element and step
///
/// No state. Range: temperature >= 0; with 0 it is `sgd`. The paper has the step eps / 2 * grad(log
/// p) and noise of the variance eps: that is lr = eps / 2, temperature = 1, and U = -log p of all
/// the data, with the prior. If your loss is a mean over N samples, U is N times the loss: use
/// temperature = 1 / N, and a learning rate that is N times as large. The paper lets lr fall as a
/// (b + t)^-gamma, 1/2 < gamma <= 1: `inverse_time` for gamma = 1. `moving<"temperature">` anneals.
///
/// n is a pure function of step_options::seed, step, id and element (`noisy_rule`): the bits are
/// equal on every backend, and checkpoints need nothing but the clock. Give the tensors of a model
/// different ids. A step without gradient moves the weight, so that tables support `touch_only`: a
/// row has noise in the steps that contain it. It is not for `sharded`.
/// Other frameworks: MXNet's SGLD has w <- w - lr / 2 * g + sqrt(lr) * n: half its learning rate
/// here. optax' noisy_sgd is `noisy_sgd` here.
struct sgld {
    double temperature = 1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"temperature", &sgld::temperature, ranges::non_negative}};

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};

    template <class T> struct coeffs { T rate, sigma; };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(now.rate), T(std::sqrt(2 * now.rate * temperature))};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&, V noise) {
        w = math::fma(V(c.sigma), noise, math::fnma(V(c.rate), g, w));
    }
};
static_assert(noisy_rule<sgld>);
} // namespace gradstep
