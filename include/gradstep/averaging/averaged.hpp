#pragma once
#include <gradstep/averaging/ema.hpp>
#include <gradstep/kernel/averaged_view.hpp>
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/policy/detail/weight_changes.hpp>
#include <gradstep/policy/policy.hpp>
#include <gradstep/policy/scheduled.hpp>

namespace gradstep {
/// An average of weights, for `averaged` and `averager`: a type with `state<X>`, `state_names`,
/// `coeffs<T>` and `prepare<T>(step_info)`, as for a rule, and with these parts:
///
///     // from the initial weights
///     template <pack V> GRADSTEP_HD static state<V> initialize(V w);
///     // adds the weight of a step
///     template <class T, pack V> GRADSTEP_HD static void add(coeffs<T> const&, V w, state<V>& s);
///     // how to read the average: scalars after step t
///     template <class T> using reading = ...;
///     template <class T> reading<T> read(std::int64_t t) const;
///     template <class T, pack V> GRADSTEP_HD static V value(reading<T>, V w, state<V> const& s);
///
/// `add` and `pull` must be linear in w and s; otherwise tables could not average inactive rows.
/// `pull` must leave a weight that equals the slots as it is. Optional members:
///
/// - `is_rare_slot(i)` and `coeffs<T>::is_rare()`, as for a rule, with `add_rarely` for these
///   steps;
/// - `pulls_weight = true` and `pull(coeffs<T> const&, V& w, state<V>& s)`, which changes the
///   weight in steps with `is_rare()`, after all regularizers and before it is rounded:
///   `lookahead`. With `pulls_every_step = true` it does so in every step: `towards_initial`;
/// - `counts_steps = true`, which excludes it from `touch_only` tables: there, steps without a row
///   never happened for this row;
/// - `weights_set(std::int64_t t, V w, state<V>& s) const`, as for a rule;
/// - `arrival<T>`, `arrive<T>(t)` and `initialize(arrival<T>, V w)`, if the state depends on the
///   steps before a row joined the table.
template <class A>
concept weight_average = requires(A const& a, typename A::template coeffs<float> c, float w,
                                  typename A::template state<float>& s) {
    { A::initialize(w) } -> std::same_as<typename A::template state<float>>;
    { a.template prepare<float>(step_info{}) } -> std::same_as<typename A::template coeffs<float>>;
    A::add(c, w, s);
    { A::value(a.template read<float>(std::int64_t{}), w, s) } -> std::same_as<float>;
    A::state_names.size();
};

/// A rule with an average of its weights, computed in the same pass over memory:
/// `averaged{adam{}, ema{0.999}}`, or `polyak{}`, or `window{.rate = 0.15}`, or `lookahead{}`, or
/// `towards_initial{0.01}`. The average has additional state slots. It averages the weight as it is
/// stored, after all regularizers and after rounding. With a master copy, it averages the master
/// copy, which has more digits.
///
///     (w, s) <- rule(w, g, s)
///     sums <- average(sums, w)
///
/// You can nest averages; each one averages the same weights. The second one's slots are
/// "average2", or "sum_1_2" and so on, the next one's "average3", up to "average9".
///
/// State: the rule's, then the average's. docs/explanation/lazy_updates.md describes how a table
/// averages inactive rows.
template <class Rule, class Average> struct averaged;
} // namespace gradstep

namespace gradstep::detail {
template <class Rule> inline constexpr int average_count = 0;
template <class Rule, class Average>
inline constexpr int average_count<averaged<Rule, Average>> = average_count<Rule> + 1;

// How a policy accounts for the steps before a row joined: its `arrival`, if it has one.
struct no_arrival {};
template <class Policy, class T> struct arrival_type { using type = no_arrival; };
template <class Policy, class T>
requires(requires { typename Policy::template arrival<T>; }) struct arrival_type<Policy, T> {
    using type = typename Policy::template arrival<T>;
};
template <class Policy, class T> using arrival_of = typename arrival_type<Policy, T>::type;
template <class T, class Policy> arrival_of<Policy, T> arrive([[maybe_unused]] Policy const& policy, std::int64_t t) {
    if constexpr (std::is_same_v<arrival_of<Policy, T>, no_arrival>) return {};
    else return policy.template arrive<T>(t);
}

// The same for a change of the clock.
template <class Policy, class T> struct clock_change_type { using type = no_arrival; };
template <class Policy, class T>
requires(requires { typename Policy::template clock_change<T>; }) struct clock_change_type<Policy, T> {
    using type = typename Policy::template clock_change<T>;
};
template <class Policy, class T> using clock_change_of = typename clock_change_type<Policy, T>::type;
template <class T, class Policy>
clock_change_of<Policy, T> change_clock([[maybe_unused]] Policy const& policy, [[maybe_unused]] std::int64_t from,
                                        [[maybe_unused]] std::int64_t to) {
    if constexpr (std::is_same_v<clock_change_of<Policy, T>, no_arrival>) return {};
    else return policy.template change_clock<T>(from, to);
}

// The name of an average's slot, where Number counts the averages of a rule: "average", "average2";
// "sum_1", "sum_1_2".
template <class Average, std::size_t Slot, int Number>
inline constexpr auto average_name = [] {
    std::array<char, 16> name{};
    std::size_t n = 0;
    for (char const* c = Average::state_names[Slot]; *c != 0; ++c) name[n++] = *c;
    if (Number < 2) return name;
    if ('0' <= name[n - 1] && name[n - 1] <= '9') name[n++] = '_';
    name[n] = static_cast<char>('0' + Number);
    return name;
}();
} // namespace gradstep::detail

namespace gradstep {
template <class Rule, class Average> struct averaged {
    static_assert(weight_average<Average>,
                  "gradstep: averaged: an argument is no average; expected gs::averaged{gs::adam{}, gs::ema{0.999}}, "
                  "or with gs::polyak{} or gs::window{...}");
    static_assert(!detail::is_scheduled<Rule> && !detail::is_scheduled<Average>,
                  "gradstep: averaged: a part is scheduled; expected gs::scheduled{gs::averaged{...}, "
                  "gs::moving<\"rule.beta1\">(schedule)}");
    static_assert(!row_wise_rule<Rule>,
                  "gradstep: averaged: the rule is row-wise; expected a rule that works element by element");
    static_assert(!shaped_rule<Rule>, "gradstep: averaged: the rule needs a matrix; expected a rule that works element "
                                      "by element; average the parameter by gs::averager");
    static_assert(!detail::sends_messages<Rule>,
                  "gradstep: averaged: the rule is dgc_momentum, whose steps touch few elements; expected another "
                  "rule; average the parameter by gs::averager");
    static_assert(
        !detail::keeps_clock_state<Rule>,
        "gradstep: averaged: the rule keeps numbers of all steps in the clock, as schedule-free rules do, which "
        "evaluate an average of their own, and model-wise rules, which settle them once for the model; expected "
        "another rule; average the parameter by gs::averager");
    static_assert(detail::average_count<averaged> <= 9,
                  "gradstep: averaged: there are more than 8 averages; expected at most 8");
    /// The number of the rule's slots (`own_slots`) and of the average's slots (`average_slots`).
    /// `first_average` is the first slot of any average in a nested rule.
    static constexpr std::size_t own_slots = slot_count<Rule>, average_slots = Average::state_names.size();

    Rule rule;
    Average average;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rule", &averaged::rule}, hyperparameter{"average", &averaged::average}};

    // Derived, so that the state of a rule without slots takes no memory.
    template <class X> struct state : Rule::template state<X> {
        typename Average::template state<X> average;

        /// The state of the rule.
        GRADSTEP_HD auto& rule() { return static_cast<typename Rule::template state<X>&>(*this); }
        /// The state of the rule.
        GRADSTEP_HD auto const& rule() const { return static_cast<typename Rule::template state<X> const&>(*this); }
    };
    static constexpr std::array<char const*, own_slots + average_slots> state_names = [] {
        std::array<char const*, own_slots + average_slots> names{};
        for (std::size_t i = 0; i != own_slots; ++i) names[i] = Rule::state_names[i];
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            ((names[own_slots + I] = detail::average_name<Average, I, detail::average_count<averaged>>.data()), ...);
        }
        (std::make_index_sequence<average_slots>{});
        return names;
    }();
    template <std::size_t I, class S> GRADSTEP_HD static auto& slot(S& s) {
        if constexpr (I >= own_slots) return detail::nth<I - own_slots, average_slots>(s.average);
        else return detail::slot<I, Rule>(s.rule());
    }
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const {
        return {detail::initial_state(rule, w), Average::template initialize<V>(w)};
    }
    // For rows that join a table after step t: how averages account for the steps before.
    template <class T> struct arrival {
        detail::arrival_of<Rule, T> rule;
        detail::arrival_of<Average, T> average;
    };
    template <class T> arrival<T> arrive(std::int64_t t) const {
        return {detail::arrive<T>(rule, t), detail::arrive<T>(average, t)};
    }
    template <class T, pack V> GRADSTEP_HD void arrive(arrival<T> const& before, V w, state<V>& s) const {
        if constexpr (requires { rule.arrive(before.rule, w, s.rule()); }) rule.arrive(before.rule, w, s.rule());
        if constexpr (requires { Average::initialize(before.average, w); })
            s.average = Average::initialize(before.average, w);
    }
    /// @cond
    // For rows that keep their state while the clock goes to another step: their averages stay.
    static constexpr bool counts_in_state = detail::counts_in_state<Rule> || detail::counts_in_state<Average>;
    template <class T> struct clock_change {
        detail::clock_change_of<Rule, T> rule;
        typename Average::template reading<T> before;
        detail::arrival_of<Average, T> after;
    };
    template <class T> clock_change<T> change_clock(std::int64_t from, std::int64_t to) const {
        return {detail::change_clock<T>(rule, from, to), average.template read<T>(from),
                detail::arrive<T>(average, to)};
    }
    template <class T, pack V> GRADSTEP_HD static void clock_changed(clock_change<T> const& c, V w, state<V>& s) {
        if constexpr (requires { Rule::clock_changed(c.rule, w, s.rule()); }) Rule::clock_changed(c.rule, w, s.rule());
        if constexpr (detail::counts_in_state<Average>)
            s.average = Average::initialize(c.after, Average::value(c.before, w, s.average));
    }
    /// @endcond
    template <pack V>
    GRADSTEP_HD void weights_set(std::int64_t t, V w, state<V>& s) const
        requires(detail::contains_weights<Rule> || detail::contains_weights<Average>) {
        if constexpr (detail::contains_weights<Rule>) rule.weights_set(t, w, s.rule());
        if constexpr (detail::contains_weights<Average>) average.weights_set(t, w, s.average);
    }
    static constexpr bool is_rare_slot(std::size_t i) {
        bool const is_averages = i - own_slots < average_slots; // unsigned: earlier slots wrap to large numbers
        return is_averages ? detail::is_rare_slot<Average>(i - own_slots) : detail::is_rare_slot<Rule>(i);
    }

    static constexpr std::size_t first_average = [] {
        if constexpr (detail::keeps_average<Rule>) return Rule::first_average;
        else return own_slots;
    }();
    static constexpr int newton_roots = detail::newton_roots_of<Rule>;
    // For tables: the behaviour of the rule without gradient. `add` defines how averages include an
    // inactive row.
    static constexpr bool counts_steps = detail::counts_steps<Rule>() || detail::counts_steps<Average>();
    static constexpr bool pulls_weight = detail::pulls_weight<Rule> || detail::pulls_weight<Average>;
    static constexpr bool pulls_every_step = detail::pulls_every_step<Rule> || detail::pulls_every_step<Average>;
    static constexpr bool takes_gradients_only = detail::takes_gradients_only<Rule>();
    static constexpr auto at_zero_gradient = detail::zero_gradient_effect_of<Rule>();
    static constexpr bool is_linear = detail::is_linear<Rule>();
    state<double> decay() const requires(detail::decays_by_factors<Rule>) { return {rule.decay(), {}}; }
    void check_decay() const {
        if constexpr (requires { rule.check_decay(); }) rule.check_decay();
    }

    template <class T> struct coeffs {
        typename Rule::template coeffs<T> rule;
        typename Average::template coeffs<T> average;
        GRADSTEP_INLINE bool is_default() const requires(detail::has_default_form<Rule, T>) {
            return rule.is_default();
        }
        GRADSTEP_INLINE bool is_rare() const {
            bool rare = false;
            if constexpr (requires { rule.is_rare(); }) rare = rule.is_rare();
            if constexpr (requires { average.is_rare(); }) rare = rare || average.is_rare();
            return rare;
        }
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {rule.template prepare<T>(now), average.template prepare<T>(now)};
    }
    template <class T, pack V>
    GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) requires(!noisy_rule<Rule>) {
        Rule::apply(c.rule, w, g, s.rule());
    }
    template <class T, pack V>
    GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s, V noise) requires(noisy_rule<Rule>) {
        Rule::apply(c.rule, w, g, s.rule(), noise);
    }
    template <class T, pack V>
    GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g,
                                          state<V>& s) requires(detail::has_default_form<Rule, T>) {
        Rule::apply_default(c.rule, w, g, s.rule());
    }
    template <class T>
    std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const
        requires(!pulls_weight && requires(Rule const& of) { of.template step_bound<T>(from, to); }) {
        auto const bound = rule.template step_bound<T>(from, to);
        if (!bound) return {};
        return coeffs<T>{*bound, {}};
    }
    template <class T, pack V>
    GRADSTEP_HD static void pull(coeffs<T> const& c, V& w, state<V>& s) requires(pulls_weight) {
        if constexpr (detail::pulls_weight<Rule>) Rule::pull(c.rule, w, s.rule());
        if constexpr (detail::pulls_weight<Average>) Average::pull(c.average, w, s.average);
    }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V w, state<V>& s) {
        if constexpr (requires { Rule::after(c.rule, w, s.rule()); }) Rule::after(c.rule, w, s.rule());
        Average::add(c.average, w, s.average);
    }
    template <class T, pack V> GRADSTEP_HD static void after_rarely(coeffs<T> const& c, V w, state<V>& s) {
        if constexpr (requires { Rule::after_rarely(c.rule, w, s.rule()); }) Rule::after_rarely(c.rule, w, s.rule());
        else if constexpr (requires { Rule::after(c.rule, w, s.rule()); }) Rule::after(c.rule, w, s.rule());
        if constexpr (requires { Average::add_rarely(c.average, w, s.average); })
            Average::add_rarely(c.average, w, s.average);
        else Average::add(c.average, w, s.average);
    }

    /// The scalars for reading the average after a step. `read(t)` returns them for step t, and
    /// `average_of` returns the average of an element.
    template <class T> using reading = typename Average::template reading<T>;
    template <class T> reading<T> read(std::int64_t t) const { return average.template read<T>(t); }
    template <class T, pack V> GRADSTEP_HD static V average_of(T const& scalars, V w, state<V> const& s) {
        return Average::value(scalars, w, s.average);
    }
};
template <class Rule, class Average> averaged(Rule, Average) -> averaged<Rule, Average>;
} // namespace gradstep
