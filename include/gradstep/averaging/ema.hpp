#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// An exponential moving average of the weights, for `averaged`. (Polyak & Juditsky 1992 average
/// uniformly; this average forgets.)
///
///     average <- beta_t * average + (1 - beta_t) * w
///     beta_t = 0                                             until `start`: average = weight
///     beta_t = decay                                         after `start`
///     beta_t = decay * (1 - decay^(k-1)) / (1 - decay^k)     after, with debias; k = t - start
///
/// With debias, only the weights of steps after `start` count, with factors that fall by `decay`
/// from step to step and add up to 1. This equals sum_s
/// (1 - decay) * decay^(t-s) * w_s / (1 - decay^k) (Kingma & Ba 2015, section 3), without a
/// division when you read it. Without debias, it starts from the current weights.
///
/// 1 - beta_t uses beta_t as the element's arithmetic represents it, so that both factors add up
/// to 1. Otherwise the average of a constant weight w would differ from w: in float at decay 0.9999
/// by 1.7e-4 of w.
/// Ranges: 0 <= decay < 1, start >= 0.
///
/// State: average, initially the initial weights. If you set weights until step `start`, the
/// average becomes the weights (`updater::weights_set`); later, the weights of earlier steps stay
/// in it.
/// Other frameworks: Keras' and torch's averages have no debias and begin with the weights of the
/// first step (start = 1). Optax' `ema` divides when it is read. TensorFlow's uses min(decay,
/// (1 + t) / (10 + t)).
struct ema {
    double decay = 0.999;
    bool debias = false;
    std::int64_t start = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"decay", &ema::decay, ranges::fraction}, hyperparameter{"debias", &ema::debias},
        hyperparameter{"start", &ema::start, ranges::constant(ranges::count)}};

    template <class X> struct state { X average; };
    static constexpr std::array state_names{"average"};
    template <pack V> GRADSTEP_HD static state<V> initialize(V w) { return {w}; }
    // Until a step is averaged, the average is the weight.
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t t, V w, state<V>& s) const {
        if (t <= start) s.average = w;
    }

    template <class T> using coeffs = moving_average<T>;
    template <class T> coeffs<T> prepare(step_info now) const {
        std::int64_t const k = now.t - start;
        double beta = k < 1 ? 0 : decay;
        if (debias && k >= 1) beta *= detail::bias(decay, k - 1) / detail::bias(decay, k);
        coeffs<T> c(beta);
        c.gain = T(1) - c.beta; // not from the unrounded beta: nothing would correct a sum different from 1
        return c;
    }
    template <class T, pack V> GRADSTEP_HD static void add(coeffs<T> const& c, V w, state<V>& s) {
        s.average = c(s.average, w);
    }

    /// The average is the slot itself.
    template <class T> struct reading {};
    template <class T> reading<T> read(std::int64_t) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static V value(reading<T>, V, state<V> const& s) { return s.average; }
};
} // namespace gradstep
