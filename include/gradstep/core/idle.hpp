#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gradstep/core/concepts.hpp>

namespace gradstep {

/// What a step with g = 0 does to weight and state: a rule says it once, as `static constexpr auto at_zero_gradient`,
/// and a table knows from it how a row catches up on the steps that it missed.
///
/// Beside it a rule may have
///
///     static constexpr bool is_linear = true;     the step is linear in (w, state, g)
///     state<double> decay() const;                by what g = 0 multiplies each slot (row_decay() for those of rows)
///     void check_decay() const;                   throws value_error for options under which decay() does not hold
///     std::optional<coeffs<T>> furthest<T>(step_info from, std::int64_t to) const;
///                                                 a step that moves a weight without gradient at least as far as each
///                                                 step from `from` to number `to`, with rates up to from.rate; nothing
///                                                 where the moves may grow
enum class idle {
    moves,        ///< the weight moves; what a rule is held for that does not say
    stands,       ///< weight and state stand still
    stands_alone, ///< they stand still unless a regularizer moves the weight, which the state depends on
    decays,       ///< the weight stands still, each slot is multiplied by `decay()`
};

/// What a regularizer does to the weight of a row without gradient, as `static constexpr auto at_zero_gradient`.
enum class idle_weight {
    other,   ///< nothing simple; what a regularizer is held for that does not say
    stands,  ///< nothing: clipping
    scales,  ///< |w| <- a * |w|, as `shrink(step_info)` says
    shrinks, ///< |w| <- max(0, a * |w| - b), as `shrink(step_info)` says
    pulls,   ///< adds a multiple of the weight to the gradient
};

/// |w| <- max(0, a * |w| - b), with the sign kept: what a decay does in one step. log_a <= 0, b >= 0.
struct shrinkage {
    double log_a = 0, b = 0;

    /// Both, one after the other.
    GRADSTEP_INLINE shrinkage then(shrinkage next) const {
        return {log_a + next.log_a, std::fma(std::exp(next.log_a), b, next.b)};
    }
};

namespace detail {
inline namespace GRADSTEP_ISA {

template <class Rule> constexpr idle idle_of() {
    if constexpr (requires { Rule::at_zero_gradient; }) return Rule::at_zero_gradient;
    else return idle::moves;
}
template <class Regularizer> constexpr idle_weight idle_weight_of() {
    if constexpr (requires { Regularizer::at_zero_gradient; }) return Regularizer::at_zero_gradient;
    else return idle_weight::other;
}
template <class Rule> constexpr bool is_linear() {
    if constexpr (requires { Rule::is_linear; }) return Rule::is_linear;
    else return false;
}
// A rule that keeps averages of its weights, and knows how they are read: `averaged`.
template <class Rule> concept keeps_average = requires { typename Rule::template reading<float>; };
// Whether a rule counts the steps of a run, and not those that a row sees.
template <class Rule> constexpr bool counts_steps() {
    if constexpr (requires { Rule::counts_steps; }) return Rule::counts_steps;
    else return false;
}
// Whether the step of a rule is more than its `apply`: of whole tensors, and between trainers.
template <class Rule> constexpr bool compresses() {
    if constexpr (requires { Rule::compresses; }) return Rule::compresses;
    else return false;
}
// Whether the state after any number of steps without gradient has a closed form.
template <class Rule> concept decays_by_factors = requires(Rule const& rule) { rule.decay(); }
&&(row_slot_count<Rule> == 0 || requires(Rule const& rule) { rule.row_decay(); });
template <class Rule> constexpr bool state_stands() {
    return idle_of<Rule>() == idle::stands || idle_of<Rule>() == idle::stands_alone;
}

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
