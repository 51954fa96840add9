#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The uniform average of the weights of all steps after `start`, for `averaged`. Polyak & Juditsky
/// 1992; as stochastic weight averaging, Izmailov et al. 2018, arXiv:1803.05407.
///
///     average <- w                               until `start`
///     average <- average + (w - average) / k     after `start`, k = t - start
///
/// Every step rounds the average once. The average of k steps has an error of at most k/2 units in
/// the last place, typically about sqrt(k/3): 100 000 steps in float cost 1e-5 of it. For longer
/// runs use `window`, which folds its sums, or double. Range: start >= 0.
///
/// State: average, initially the initial weights. If you set weights until step `start`, the
/// average becomes the weights (`updater::weights_set`); later, the weights of earlier steps stay
/// in it. A `touch_only` table rejects it: it counts all steps, but an inactive row does not.
/// Other frameworks: torch's AveragedModel divides by k; this average multiplies by 1 / k.
struct polyak {
    std::int64_t start = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"start", &polyak::start, ranges::constant(ranges::count)}};
    static constexpr bool counts_steps = true;

    template <class X> struct state { X average; };
    static constexpr std::array state_names{"average"};
    template <pack V> GRADSTEP_HD static state<V> initialize(V w) { return {w}; }
    // Until a step is averaged, the average is the weight.
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t t, V w, state<V>& s) const {
        if (t <= start) s.average = w;
    }

    template <class T> struct coeffs { T share, keep; };
    template <class T> coeffs<T> prepare(step_info now) const {
        std::int64_t const k =
            std::max<std::int64_t>(1, now.t - start); // never 0: a compiler may divide before the test
        return {T(1 / static_cast<double>(k)), T(k > 1)};
    }
    template <class T, pack V> GRADSTEP_HD static void add(coeffs<T> const& c, V w, state<V>& s) {
        // 0 at the first step: otherwise w - average would round w as well.
        V const before = V(c.keep) * s.average;
        s.average = math::fma(V(c.share), w - before, before);
    }

    /// The average is the slot itself.
    template <class T> struct reading {};
    template <class T> reading<T> read(std::int64_t) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static V value(reading<T>, V, state<V> const& s) { return s.average; }
};
} // namespace gradstep
