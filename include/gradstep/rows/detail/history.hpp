#pragma once
#include <gradstep/rows/detail/factor_history.hpp>
#include <gradstep/rows/detail/linear_history.hpp>
#include <gradstep/rows/detail/step_history.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// What the steps of a run did to a row without gradient, for the last `capacity` steps (a power of
// two), in the memory of the backend that reads it. A row stores only the low 32 bits of the step
// to which it has caught up. It is never more than capacity - 1 steps behind: a rolling sweep
// (rows/detail/refresh_cursor.hpp) updates older rows in time.
template <class View> concept history_view = requires(View const& view, std::uint32_t last_step) {
    // For kernels: the pending steps of a row with this last step, up to the view's step;
    // rows/detail/missed.hpp.
    { view.plan(last_step) } -> std::same_as<typename View::missed>;
    { View::missed::moves_state } -> std::convertible_to<bool>;
    { View::missed::reads_state } -> std::convertible_to<bool>;
};
template <class History, class Rule, class Regularizer>
concept history = history_view<typename History::view_type> &&
    requires(History& h, History const& c, Rule const& rule, Regularizer const& regularizer, step_info now,
             std::int64_t t, std::span<double const> numbers, double rate) {
    h.record(rule, regularizer, now);                           // step now.t, which inactive rows miss
    { c.view(t) } -> std::same_as<typename History::view_type>; // the pending steps up to step t
    { History::bytes_per_step } -> std::convertible_to<std::size_t>;
    // For checkpoints: the same as doubles, exactly as later plans read them. Empty if nothing is
    // kept.
    { History::kind } -> std::convertible_to<history_kind>;
    { History::numbers_per_step } -> std::convertible_to<std::size_t>;
    // The number of steps, given the capacity.
    { History::saved_steps(t, std::uint64_t{}) } -> std::same_as<std::uint64_t>;
    { c.saved(t) } -> std::same_as<std::vector<double>>;
    c.check(t, numbers, rate); // throws for finite numbers that no run can have saved; rate: of step t
    h.restore(t, numbers, rate);
};

// `Moves`: the numbers of rule and regularizer that follow schedules.
template <catch_up_form Form, class Rule, class Regularizer, class T, template <class> class Buffer,
          class Moves = no_moving_numbers>
using history_of = std::conditional_t<
    Form == catch_up_form::factors, factor_history<Rule, Regularizer, T, Buffer, Moves>,
    std::conditional_t<Form == catch_up_form::linear, linear_history<Rule, Regularizer, T, Buffer, Moves>,
                       std::conditional_t<Form == catch_up_form::steps,
                                          step_history<Rule, Regularizer, T, Buffer, Moves>, no_history<T>>>>;

// Whether rows can catch up if numbers of the regularizer, or of the rule (`of_rule`), follow
// schedules. Factors and matrices are recorded for each step. A closed form of the state's decay,
// and steps that are prepared again, need constant numbers.
template <catch_up_form Form, class Rule, class Regularizer, class T>
constexpr bool follows_schedules([[maybe_unused]] bool of_rule) {
    if constexpr (Form == catch_up_form::factors)
        return !of_rule || zero_gradient_effect_of<Rule>() != zero_gradient_effect::decays_state;
    else if constexpr (Form == catch_up_form::linear)
        return !of_rule || !missed_linear<Rule, Regularizer, T>::has_factors;
    else return Form != catch_up_form::steps;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
