#pragma once
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/zero_gradient.hpp>

namespace gradstep {
/// Catch-up policy: inactive rows are not updated (a "lazy" update in other frameworks). State and
/// weight of a row stay unchanged in the steps that it missed. It needs no memory and works with
/// any rule.
struct touch_only {};

/// Catch-up policy: a row that has caught up equals the row of a dense run with g = 0 in every
/// pending step. It is equal up to rounding, for any learning rates. Catching up a row costs O(1),
/// or O(log gap) with a linear rule. Only for pairs of rule and regularizer that have a closed
/// form; other pairs do not compile.
struct exact {};

/// Catch-up policy: runs the first `max_steps` pending steps, each with its own rate, but stops
/// when no further step can change the weight. For the remaining steps, the state decays in closed
/// form and the weight stays. Intended for adam; works for every rule whose state has a closed form
/// without gradient. Range: max_steps >= 1.
struct replay {
    std::int64_t max_steps = missing_count;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"max_steps", &replay::max_steps, ranges::positive_count}};
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
// How the pending steps of a row are computed.
enum class catch_up_form {
    untracked, // no catch-up; the age is not tracked
    no_op,     // nothing happens to the row
    factors,
    linear,
    steps,
    refused
};

// A rule and a regularizer that have no closed form together are rejected.
template <class Rule, class Regularizer> constexpr catch_up_form form_of_weight() {
    constexpr zero_gradient_effect rule = zero_gradient_effect_of<Rule>();
    constexpr zero_gradient_weight weight = zero_gradient_weight_of<Regularizer>();
    constexpr bool scales = weight == zero_gradient_weight::scales, shrinks = weight == zero_gradient_weight::shrinks,
                   is_no_op = weight == zero_gradient_weight::no_op, pulls = weight == zero_gradient_weight::coupled,
                   rests = weight == zero_gradient_weight::scales_at_rest;
    if (is_no_op && (rule == zero_gradient_effect::no_op || rule == zero_gradient_effect::no_op_if_weight_unchanged))
        return catch_up_form::no_op;
    if (rule == zero_gradient_effect::no_op && (scales || shrinks || rests)) return catch_up_form::factors;
    if (rule == zero_gradient_effect::no_op && is_linear<Rule>() && slot_count<Rule> == 0 && pulls)
        return catch_up_form::factors;
    if (rule == zero_gradient_effect::decays_state && (is_no_op || scales || shrinks || rests))
        return catch_up_form::factors;
    if (is_linear<Rule>() && (is_no_op || scales || pulls)) return catch_up_form::linear;
    return catch_up_form::refused;
}
// Averages include the weight after every step. If the weight is multiplied by a factor, weight and
// averages together are a linear map. With a threshold they are not.
template <class Rule, class Regularizer> constexpr catch_up_form exact_form() {
    constexpr auto form = form_of_weight<Rule, Regularizer>();
    if constexpr (!keeps_average<Rule>) return form;
    else if constexpr (form == catch_up_form::no_op) return catch_up_form::linear;
    else if constexpr (form != catch_up_form::factors) return form;
    else
        return zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::shrinks ? catch_up_form::refused
                                                                                       : catch_up_form::linear;
}
// The first average among the slots of a rule; slot_count if it keeps none.
template <class Rule> constexpr std::size_t first_average_slot() {
    if constexpr (keeps_average<Rule>) return Rule::first_average;
    else return slot_count<Rule>;
}
// The first slot that the matrix of a linear form maps together with the weight. Earlier slots have
// factors of their own.
template <class Rule> constexpr std::size_t first_linear_slot() {
    return keeps_average<Rule> && !is_linear<Rule>() ? first_average_slot<Rule>() : 0;
}

template <class Policy, class Rule, class Regularizer> constexpr catch_up_form form_of() {
    static_assert(!shaped_rule<Rule>,
                  "gradstep: table: the rule needs a matrix, and a table updates single rows; expected a rule that "
                  "updates each row by itself, as gs::adam, or gs::parameter for the whole matrix");
    static_assert(!sends_messages<Rule>,
                  "gradstep: table: the rule needs whole tensors, and a table updates single rows; expected another "
                  "rule, as gs::momentum or gs::nesterov instead of gs::dgc_momentum");
    static_assert(
        !noisy_rule<Rule> || std::is_same_v<Policy, touch_only>,
        "gradstep: table: the rule adds noise to every row in every step, and the noise of many pending steps "
        "has no closed form with the same bits; expected gs::touch_only, which adds it to the rows of a step");
    static_assert(!keeps_clock_state<Rule>,
                  "gradstep: table: the rule keeps numbers of all steps, which an inactive row would miss, as "
                  "schedule-free and model-wise rules do; expected gs::parameter, or another rule with an average, as "
                  "gs::averaged{gs::adam{}, gs::ema{0.999}}");
    constexpr bool is_exact = std::is_same_v<Policy, exact>, is_replay = std::is_same_v<Policy, replay>;
    static_assert(is_exact || is_replay || std::is_same_v<Policy, touch_only>,
                  "gradstep: table: the argument is no catch-up policy; expected gs::touch_only{}, gs::exact{} or "
                  "gs::replay{max_steps}");
    static_assert(
        zero_gradient_effect_of<Rule>() != zero_gradient_effect::decays_state || decays_by_factors<Rule>,
        "gradstep: rule: at_zero_gradient is decays_state, and its factors are missing; expected `state<double> "
        "decay() const`, the factor of each slot, and with a row_state `row_state<double> row_decay() const`");
    constexpr zero_gradient_weight weight = zero_gradient_weight_of<Regularizer>();
    constexpr bool is_coupled = weight == zero_gradient_weight::coupled || weight == zero_gradient_weight::other;
    if constexpr (is_exact) {
        constexpr auto form = exact_form<Rule, Regularizer>(), of_weight = form_of_weight<Rule, Regularizer>();
        constexpr bool fits = form != catch_up_form::refused;
        constexpr bool is_norm = row_wise_rule<Rule> && !decays_by_factors<Rule> && !state_is_unchanged<Rule>();
        constexpr bool moves = zero_gradient_effect_of<Rule>() == zero_gradient_effect::general && !is_linear<Rule>();
        static_assert(fits || !is_norm,
                      "gradstep: exact catch-up: this rule scales by the norms of a row, which have no "
                      "closed form; expected gs::touch_only");
        static_assert(fits || is_norm || !moves,
                      "gradstep: exact catch-up: a step of this rule without gradient moves the weight and has no "
                      "closed form; expected gs::replay{max_steps} or gs::touch_only, or at_zero_gradient in a rule "
                      "that does not move the weight");
        static_assert(fits || is_norm || moves || weight != zero_gradient_weight::coupled,
                      "gradstep: exact catch-up: with a coupled l2 the state of this rule grows without gradient, "
                      "which has no closed form; expected gs::decoupled or gs::proximal{gs::l2{...}}, "
                      "gs::replay{max_steps}, gs::touch_only, or the rule sgd, momentum or nesterov");
        static_assert(fits || is_norm || moves || weight != zero_gradient_weight::other,
                      "gradstep: exact catch-up: this regularizer has no closed form without gradient, such as a "
                      "coupled l1, which does not stop at 0, or a clipped l2; expected gs::proximal{...}, "
                      "gs::replay{max_steps} or gs::touch_only");
        static_assert(fits || is_norm || moves || weight != zero_gradient_weight::moves,
                      "gradstep: exact catch-up: clamping a weight, and a cautious decay beside another decay, have no "
                      "closed form over several steps; expected gs::replay{max_steps} or gs::touch_only");
        static_assert(fits || is_norm || moves || weight != zero_gradient_weight::scales_at_rest || !is_linear<Rule>(),
                      "gradstep: exact catch-up: momentum moves a weight without gradient, and cautious_decay depends "
                      "on the direction; expected gs::decoupled, gs::replay{max_steps} or gs::touch_only");
        static_assert(
            fits || of_weight != catch_up_form::factors,
            "gradstep: exact catch-up: the average of a row under l1 has no closed form, since its elements reach 0 at "
            "different steps; expected l2 or gs::decoupled, gs::replay{max_steps}, or gs::touch_only with gs::ema");
        static_assert(fits || is_coupled || weight == zero_gradient_weight::moves ||
                          zero_gradient_effect_of<Rule>() != zero_gradient_effect::no_op_if_weight_unchanged,
                      "gradstep: exact catch-up: the state of this rule follows its weight; expected its own l1 and l2 "
                      "and no regularizer, or gs::touch_only");
        static_assert(
            fits || !is_linear<Rule>() || weight != zero_gradient_weight::shrinks ||
                of_weight == catch_up_form::factors,
            "gradstep: exact catch-up: a weight that momentum carries on crosses 0, where l1 would stop it; expected "
            "l2, gs::decoupled or gs::proximal{gs::l2{...}}, gs::replay{max_steps} or gs::touch_only");
        return form;
    } else if constexpr (is_replay) {
        static_assert(
            state_is_unchanged<Rule>() || decays_by_factors<Rule>,
            "gradstep: replay: the rule does not say what its state does without gradient; expected `state<double> "
            "decay() const` or `at_zero_gradient = gs::zero_gradient_effect::no_op`, or gs::touch_only");
        static_assert(zero_gradient_effect_of<Rule>() != zero_gradient_effect::no_op_if_weight_unchanged ||
                          weight == zero_gradient_weight::no_op,
                      "gradstep: replay: the state of this rule follows its weight; expected its own l1 and l2 and no "
                      "regularizer, or gs::touch_only");
        static_assert(!row_wise_rule<Rule> || !is_coupled,
                      "gradstep: replay: a coupled regularizer gives a row-wise rule a gradient on every step; "
                      "expected gs::decoupled or gs::proximal{...}, or gs::touch_only");
        return catch_up_form::steps;
    } else {
        static_assert(!counts_steps<Rule>() || keeps_clock_state<Rule>,
                      "gradstep: touch_only: an average that counts the steps of the run misses the steps of an "
                      "inactive row; expected gs::exact or gs::replay{max_steps}, or the average gs::ema or "
                      "gs::towards_initial");
        return catch_up_form::untracked;
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
