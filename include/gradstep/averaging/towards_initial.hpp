#pragma once
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Decoupled decay towards the initial weights instead of towards 0, for fine-tuning: the weights
/// stay near the model that training began with. Li, Grandvalet & Davoine 2018, arXiv:1802.01483
/// (L2-SP). It is used like an average, `averaged{adam{}, towards_initial{0.01}}`, since it keeps
/// one number for each weight. Like `lookahead`, it changes the weights.
///
///     (w, s) <- rule(w, g, s)
///     w <- w - lr * rate * (w - initial)
///
/// It follows all regularizers, in every step, and does not enter the state of the rule, as
/// `decoupled` does not. The paper adds rate / 2 * |w - initial|^2 to the loss instead: add
/// rate * (w - initial) to the gradient for that form. With `sgd` the paper's form computes the
/// same, except that its distance is of the weight before the step. For weights that the initial
/// model does not have, such as a new last layer, the paper decays towards 0: use `decoupled`
/// there.
/// Ranges: rate >= 0, and lr * rate <= 1 at every step. A tensor's rate_scale scales the learning
/// rate here too; its `decay` does not.
///
/// State: initial, the initial weights, which no step writes. If you set weights later, for example
/// to pretrained ones, they become the initial weights (`updater::weights_set`). `average` and
/// `apply_average` read them; to read another average, put that one outside:
/// `averaged{averaged{adam{}, towards_initial{0.01}}, ema{}}`. In tables, `initial` of a row is the
/// value with which the row began. `exact` and `replay` include the steps of inactive rows; under
/// `touch_only` a row decays in the steps that contain it. `averager` rejects it, because it cannot
/// change weights.
/// Other frameworks: none of torch, optax, TensorFlow, Keras and Paddle has it.
struct towards_initial {
    double rate = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &towards_initial::rate, ranges::non_negative}};
    static constexpr bool pulls_weight = true, pulls_every_step = true;

    template <class X> struct state { X initial; };
    static constexpr std::array state_names{"initial"};
    template <pack V> GRADSTEP_HD static state<V> initialize(V w) { return {w}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.initial = w; }

    template <class T> struct coeffs { T share; };
    template <class T> coeffs<T> prepare(step_info now) const {
        if (!(now.rate * rate <= 1))
            detail::fail<value_error>({"towards_initial"}, {"lr * rate = ", now.rate, " * ", rate},
                                      {"<= 1, or the weight moves beyond its initial value"});
        return {T(now.rate * rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void pull(coeffs<T> const& c, V& w, state<V>& s) {
        w = math::fnma(V(c.share), w - s.initial, w);
    }
    template <class T, pack V> GRADSTEP_HD static void add(coeffs<T> const&, V, state<V>&) {}

    /// The initial weights are the slot itself.
    template <class T> struct reading {};
    template <class T> reading<T> read(std::int64_t) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static V value(reading<T>, V, state<V> const& s) { return s.initial; }
};
} // namespace gradstep
