#pragma once
#include <gradstep/number/pack.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep {
/// The position of epsilon in an adaptive rule. It differs between frameworks, and so do the
/// results (docs/reference/presets.md).
enum class epsilon {
    outside, ///< outside the root, after bias correction: sqrt(v) + epsilon
    inside,  ///< inside the root, after bias correction: sqrt(v + epsilon)
    /// Outside the root, before bias correction (Kingma & Ba's epsilon-hat): larger by
    /// 1 / sqrt(1 - beta2^t)
    hat,
    accumulated, ///< added to the stored quantity (Paddle's Adamax)
};
template <> inline constexpr std::array enumerators<epsilon>{"outside", "inside", "hat", "accumulated"};

/// The position of the learning rate in a rule with a momentum buffer. Both give the same result
/// only for a constant rate.
enum class learning_rate {
    outside, ///< multiplies the buffer when it is read; the buffer contains gradients
    inside,  ///< multiplies what enters the buffer; the buffer contains steps, with the rates of their time
};
template <> inline constexpr std::array enumerators<learning_rate>{"outside", "inside"};
} // namespace gradstep

namespace gradstep::epsilon_positions {
/// The positions that rules with and without bias correction allow.
inline constexpr choices<epsilon> corrected{epsilon::outside, epsilon::inside, epsilon::hat};
inline constexpr choices<epsilon> uncorrected{epsilon::outside, epsilon::inside};
} // namespace gradstep::epsilon_positions

namespace gradstep::inline GRADSTEP_ISA {
/// The root of a rule with epsilon in its position, as scalars of one step:
///
///     scale * sqrt(x + inside) + outside
///
/// One of the two terms comes from epsilon and is never 0 (0 / 0 would be NaN); the other one is 0.
/// `scale` is 1 / sqrt(1 - beta2^t) if x is bias-corrected, else 1.
template <class T> struct root_terms {
    T scale, inside, outside;

    root_terms() = default;
    GRADSTEP_INLINE root_terms(double eps, epsilon position, double bias = 1)
        : scale(T(1 / std::sqrt(bias))), inside(0), outside(0) {
        if (position == epsilon::inside) inside = never_zero<T>(eps * bias);
        else outside = never_zero<T>(position == epsilon::hat ? eps / std::sqrt(bias) : eps);
    }

    /// The root of an x without bias correction.
    template <pack V> GRADSTEP_HD V of(V x) const { return of_outside(x + V(inside)); }
    /// The same if `inside` is 0, without its addition.
    template <pack V> GRADSTEP_HD V of_outside(V x) const { return math::sqrt(x) + V(outside); }
    /// The root of a bias-corrected x.
    template <pack V> GRADSTEP_HD V corrected(V x) const { return corrected_outside(x + V(inside)); }
    /// The same if `inside` is 0, without its addition.
    template <pack V> GRADSTEP_HD V corrected_outside(V x) const {
        return math::fma(V(scale), math::sqrt(x), V(outside));
    }
};

/// A momentum buffer with the learning rate in its position, as scalars of one step:
///
///     b <- mu * b + gain * d,    w <- w - move * b
///
/// The rate is in `gain` if its position is inside, in `move` if it is outside; the other scalar is
/// 1.
template <class T> struct momentum_terms {
    T mu, gain, move;

    momentum_terms() = default;
    GRADSTEP_INLINE momentum_terms(double momentum, learning_rate position, double rate)
        : mu(T(momentum)), gain(T(position == learning_rate::inside ? rate : 1)),
          move(T(position == learning_rate::inside ? 1 : rate)) {}

    /// The buffer after adding d.
    template <pack V> GRADSTEP_HD V operator()(V buffer, V d) const { return math::fma(V(mu), buffer, V(gain) * d); }
    /// The weight after a move along the buffer.
    template <pack V> GRADSTEP_HD V moved(V w, V buffer) const { return math::fnma(V(move), buffer, w); }
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// For `step_bound` (policy/zero_gradient.hpp) of a rule whose moves without gradient decrease
// except for its bias corrections: the step `from`, with the smallest root of all steps up to
// number `to`.
template <class T, class Rule> auto with_smallest_root(Rule const& rule, step_info from, std::int64_t to) {
    auto most = rule.template prepare<T>(from);
    auto const last = rule.template prepare<T>({to, from.rate}).root;
    most.root.scale = std::min(most.root.scale, last.scale);
    most.root.inside = std::min(most.root.inside, last.inside);
    most.root.outside = std::min(most.root.outside, last.outside);
    return most;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
