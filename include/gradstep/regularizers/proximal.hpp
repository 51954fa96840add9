#pragma once
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/policy.hpp>
#include <gradstep/regularizers/elastic_net.hpp>
#include <gradstep/regularizers/l1.hpp>
#include <gradstep/regularizers/l2.hpp>

namespace gradstep {
/// The proximal form of `l1`, `l2` or `elastic_net`. The penalty does not enter the gradient. After
/// the rule's step, it is applied to the weight as the exact minimiser of
/// lr * penalty(x) + 1/2 (x - w)^2:
///
///     w <- sgn(w) * max(0, |w| - lr * l1) / (1 + lr * l2)
///
/// The only form that gives exact zeros. Duchi & Singer 2009 (FOBOS); Parikh & Boyd 2014, sections
/// 6.5.1 and 6.5.2. The learning rate is the schedule's: an adaptive rule does not change the
/// threshold.
template <class Penalty> struct proximal {
    Penalty penalty;
    static constexpr auto hyperparameters = hyperparameter_list{hyperparameter{"penalty", &proximal::penalty}};
    static constexpr bool is_decay = true;
    static_assert(std::is_same_v<Penalty, l1> || std::is_same_v<Penalty, l2> || std::is_same_v<Penalty, elastic_net>,
                  "gradstep: proximal: the argument is no penalty; expected l1, l2 or elastic_net");

    static constexpr auto at_zero_gradient =
        std::is_same_v<Penalty, l2> ? zero_gradient_weight::scales : zero_gradient_weight::shrinks;
    // threshold, then scale: a = 1 / (1 + lr * l2), b = a * lr * l1
    shrinkage shrink(step_info now) const {
        return {-std::log1p(now.rate * l2_rate()), now.rate * l1_rate() / std::fma(now.rate, l2_rate(), 1)};
    }

    /// The same regularizer, `factor` times as fast.
    proximal decayed_by(double factor) const { return {penalty.decayed_by(factor)}; }

    template <class T> struct coeffs { T threshold, scale; };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(now.rate * l1_rate()), T(1 / std::fma(now.rate, l2_rate(), 1))};
    }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V& w) {
        w = math::copysign(math::max(math::abs(w) - V(c.threshold), V(0)) * V(c.scale), w);
    }

    /// The l1 of the penalty; 0 if it has none.
    GRADSTEP_INLINE double l1_rate() const {
        if constexpr (std::is_same_v<Penalty, elastic_net>) return penalty.l1;
        else if constexpr (std::is_same_v<Penalty, l1>) return penalty.rate;
        else return 0;
    }
    /// The l2 of the penalty; 0 if it has none.
    GRADSTEP_INLINE double l2_rate() const {
        if constexpr (std::is_same_v<Penalty, elastic_net>) return penalty.l2;
        else if constexpr (std::is_same_v<Penalty, l2>) return penalty.rate;
        else return 0;
    }
};
template <class Penalty> proximal(Penalty) -> proximal<Penalty>;
// Not a copy: does not compile.
template <class Penalty> proximal(proximal<Penalty>) -> proximal<proximal<Penalty>>;
} // namespace gradstep
