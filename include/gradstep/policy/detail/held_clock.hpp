#pragma once
#include <gradstep/policy/concepts.hpp>

// How updaters and steps hold a clock and a step_info: without room for the state of the clock if
// the rule keeps none, so that other rules do not pay for it.
namespace gradstep::detail::inline GRADSTEP_ISA {
struct no_clock_state {
    no_clock_state() = default;
    explicit no_clock_state(clock_state const&) {}
    operator clock_state() const { return {}; }
};
struct some_clock_state {
    clock_state numbers = {};

    some_clock_state() = default;
    explicit some_clock_state(clock_state const& x) : numbers(x) {}
    operator clock_state const&() const { return numbers; }
};
template <class Rule>
using clock_state_for = std::conditional_t<keeps_clock_state<Rule>, some_clock_state, no_clock_state>;

// Whether the last step of a model-wise rule waits for its sums.
struct never_waits {};
struct waits_for_sums {
    bool is_pending = false;
};

template <class Rule> struct held_clock {
    std::int64_t step = 0, samples = 0, epoch = 0;
    GRADSTEP_NO_UNIQUE_ADDRESS clock_state_for<Rule> state = {};
    GRADSTEP_NO_UNIQUE_ADDRESS std::conditional_t<model_wise_rule<Rule>, waits_for_sums, never_waits> sums = {};

    held_clock() = default;
    held_clock(clock const& at) : step(at.step), samples(at.samples), epoch(at.epoch), state(at.state) {}
    operator clock() const { return {step, samples, epoch, state}; }
};
template <class Rule> struct held_step_info {
    std::int64_t t;
    double rate;
    GRADSTEP_NO_UNIQUE_ADDRESS clock_state_for<Rule> state;

    held_step_info(step_info const& now) : t(now.t), rate(now.rate), state(now.state) {}
    operator step_info() const { return {t, rate, state}; }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
