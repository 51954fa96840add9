#pragma once
#include <gradstep/policy/concepts.hpp>

namespace gradstep {
/// The effect of a step with g = 0 on weight and state. A rule defines it once, as
/// `static constexpr auto at_zero_gradient`. Tables derive from it how a row catches up on its
/// pending steps.
///
/// A rule can also define
///
///     static constexpr bool is_linear = true;     the step is linear in (w, state, g)
///     state<double> decay() const;                the factor of each slot at g = 0
///                                                 (row_decay() for row slots)
///     void check_decay() const;                   throws value_error if decay() does not hold
///                                                 under the rule's options
///     std::optional<coeffs<T>> step_bound<T>(step_info from, std::int64_t to) const;
///                                                 a step that moves a weight without gradient at
///                                                 least as far as each step from `from` to number
///                                                 `to`, with rates up to from.rate; nothing if
///                                                 the moves can grow
enum class zero_gradient_effect {
    general,                   ///< the weight changes. The default
    no_op,                     ///< weight and state do not change
    no_op_if_weight_unchanged, ///< as no_op, unless a regularizer changes the weight, on which the
                               ///< state depends
    decays_state,              ///< the weight does not change; each slot is multiplied by `decay()`
};

/// The effect of a regularizer on the weight of a row without gradient. A regularizer defines it as
/// `static constexpr auto at_zero_gradient`.
enum class zero_gradient_weight {
    other,          ///< no closed form. The default
    no_op,          ///< nothing: clipping
    scales,         ///< |w| <- a * |w|, with a from `shrink(step_info)`
    scales_at_rest, ///< the same if the rule leaves the weight; otherwise it depends on the rule's step: cautious decay
    shrinks,        ///< |w| <- max(0, a * |w| - b), with a and b from `shrink(step_info)`
    coupled,        ///< adds a multiple of the weight to the gradient
    moves,          ///< changes the weight and not the gradient, without a closed form: clamping
};

/// The effect of a decay in one step, which keeps the sign: |w| <- max(0, a * |w| - b), with
/// log_a <= 0 and b >= 0.
struct shrinkage {
    double log_a = 0, b = 0;

    /// This shrinkage followed by the next one.
    GRADSTEP_INLINE shrinkage then(shrinkage next) const {
        return {log_a + next.log_a, std::fma(std::exp(next.log_a), b, next.b)};
    }
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Rule> constexpr zero_gradient_effect zero_gradient_effect_of() {
    if constexpr (requires { Rule::at_zero_gradient; }) return Rule::at_zero_gradient;
    else return zero_gradient_effect::general;
}
template <class Regularizer> constexpr zero_gradient_weight zero_gradient_weight_of() {
    if constexpr (requires { Regularizer::at_zero_gradient; }) return Regularizer::at_zero_gradient;
    else return zero_gradient_weight::other;
}
template <class Rule> constexpr bool is_linear() {
    if constexpr (requires { Rule::is_linear; }) return Rule::is_linear;
    else return false;
}
// A rule that keeps averages of its weights and can read them: `averaged`.
template <class Rule> concept keeps_average = requires { typename Rule::template reading<float>; };
// Whether a rule counts the steps of the run instead of the steps of a row.
template <class Rule> constexpr bool counts_steps() {
    if constexpr (requires { Rule::counts_steps; }) return Rule::counts_steps;
    else return false;
}
// A rule that brings a step of its own (`template <class Updater> using step_type`): its steps make
// messages for other trainers, which they apply in a second half.
template <template <class> class Step> struct own_step;
template <class Rule> concept sends_messages = !shaped_rule<Rule> && requires {
    typename own_step<Rule::template step_type>;
};
// Whether the steps of an updater depend on the id of a tensor, for rounding, noise or sampling.
template <class Updater>
inline constexpr bool uses_id = Updater::traits::is_stochastic || noisy_rule<typename Updater::rule_type> ||
                                sends_messages<typename Updater::rule_type>;
// Whether the state after any number of steps without gradient has a closed form.
template <class Rule> concept decays_by_factors = requires(Rule const& rule) { rule.decay(); }
&&(row_slot_count<Rule> == 0 || requires(Rule const& rule) { rule.row_decay(); });
template <class Rule> constexpr bool state_is_unchanged() {
    return zero_gradient_effect_of<Rule>() == zero_gradient_effect::no_op ||
           zero_gradient_effect_of<Rule>() == zero_gradient_effect::no_op_if_weight_unchanged;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
