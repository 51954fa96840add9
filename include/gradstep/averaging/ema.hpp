#pragma once
#include <cmath>
#include <cstdint>

#include <gradstep/core/concepts.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/core/moments.hpp>

namespace gradstep {

/// An exponential moving average of the weights, for `averaged`. Polyak & Juditsky 1992 average uniformly; this forgets.
///
///     average <- beta_t * average + (1 - beta_t) * w
///     beta_t = 0                                             to step `start`: the average is the weight
///     beta_t = decay                                         after it
///     beta_t = decay * (1 - decay^(k-1)) / (1 - decay^k)     after it with debias, k = t - start
///
/// With debias it is the average of the weights of the steps after `start` alone, with factors that fall by `decay` from step
/// to step and add up to 1: what sum_s (1 - decay) * decay^(t-s) * w_s / (1 - decay^k) says (Kingma & Ba 2015, section 3),
/// without a division when it is read. Without debias it goes on from the weights that it starts with.
///
/// 1 - beta_t is that of beta_t as the element's arithmetic holds it, so that the two factors add up to 1: else the average of
/// a weight w would settle beside w, in float at decay 0.9999 by 1.7e-4 of it. Ranges: 0 <= decay < 1, start >= 0.
///
/// State: average, which starts at the initial weights.
/// Differs elsewhere: Keras' and torch's are without debias and begin with the weights of the first step, start = 1; Optax'
/// `ema` divides where it is read; TensorFlow's takes min(decay, (1 + t) / (10 + t)).
struct ema {
    double decay = 0.999;
    bool debias = false;
    std::int64_t start = 0;
    static constexpr auto members =
        member_list{member{"decay", &ema::decay, ranges::fraction}, member{"debias", &ema::debias},
                    member{"start", &ema::start, ranges::count}};

    template <class X> struct state { X average; };
    static constexpr std::array state_names{"average"};
    template <pack V> GRADSTEP_HD static state<V> initialize(V w) { return {w}; }

    template <class T> using coeffs = moving_average<T>;
    template <class T> coeffs<T> prepare(step_info now) const {
        std::int64_t const k = now.t - start;
        double beta = k < 1 ? 0 : decay;
        if (debias && k >= 1) beta *= detail::bias(decay, k - 1) / detail::bias(decay, k);
        coeffs<T> c(beta);
        c.gain = T(1) - c.beta; // not of the unrounded beta: nothing corrects what the two miss 1 by
        return c;
    }
    template <class T, pack V> GRADSTEP_HD static void add(coeffs<T> const& c, V w, state<V>& s) {
        s.average = c(s.average, w);
    }

    /// What reads it: the slot itself.
    template <class T> struct reading {};
    template <class T> reading<T> read(std::int64_t) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static V value(reading<T>, V, state<V> const& s) { return s.average; }
};

} // namespace gradstep
