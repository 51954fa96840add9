#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Lookahead: slow weights, which follow the weights every `period` steps, and from which the
/// weights go on. Zhang, Lucas, Hinton & Ba 2019, arXiv:1907.08610, Algorithm 1. It is used like an
/// average, `averaged{adam{}, lookahead{}}`: the slow weights are one, over every `period`-th step.
/// Unlike the other averages, it changes the weights.
///
///     (w, s) <- rule(w, g, s)
///     every `period` steps:   slow <- slow + alpha * (w - slow),   w <- slow
///
/// It follows all regularizers. slow <- ... is rounded to the type of the state, and then w to the
/// type of the weight. The state of the rule stays as it is. `average` and `apply_average` read the
/// slow weights, which the paper evaluates; in steps that end a period, the weights equal them.
/// Ranges: period >= 1, 0 < alpha <= 1.
///
/// State: slow, initially the initial weights. If you set weights later, slow becomes the weights
/// (`updater::weights_set`). Only steps that end a period read and write it. In
/// tables, inactive rows are pulled too: `exact` and `replay` include this, and `touch_only`
/// rejects it. `averager` rejects it, because it cannot change weights.
/// Other frameworks: optax' `lookahead` has no default of either number, and can reset the state of
/// the rule. pytorch_optimizer's can average or reset the momentum. gradstep has neither.
struct lookahead {
    std::int64_t period = 5;
    double alpha = 0.5;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"period", &lookahead::period, ranges::positive_count},
                            hyperparameter{"alpha", &lookahead::alpha, ranges::positive_share}};
    static constexpr bool counts_steps = true, pulls_weight = true;

    template <class X> struct state { X slow; };
    static constexpr std::array state_names{"slow"};
    template <pack V> GRADSTEP_HD static state<V> initialize(V w) { return {w}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.slow = w; }
    static constexpr bool is_rare_slot(std::size_t) { return true; }

    template <class T> struct coeffs {
        bool ends; // whether this step ends a period
        T alpha;
        GRADSTEP_INLINE bool is_rare() const { return ends; }
    };
    template <class T> coeffs<T> prepare(step_info now) const { return {now.t % period == 0, T(alpha)}; }
    template <class T, pack V> GRADSTEP_HD static void pull(coeffs<T> const& c, V& w, state<V>& s) {
        if (!c.ends) return;
        s.slow = math::fma(V(c.alpha), w - s.slow, s.slow);
        w = s.slow;
    }
    template <class T, pack V> GRADSTEP_HD static void add(coeffs<T> const&, V, state<V>&) {}

    /// The slow weights are the slot itself.
    template <class T> struct reading {};
    template <class T> reading<T> read(std::int64_t) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static V value(reading<T>, V, state<V> const& s) { return s.slow; }
};
} // namespace gradstep
