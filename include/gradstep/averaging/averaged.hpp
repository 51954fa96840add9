#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include <gradstep/averaging/ema.hpp>
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/kernel.hpp>

namespace gradstep {

/// A rule whose weights are averaged in the same pass over memory: `averaged{adam{}, ema{0.999}}`. The average is one more
/// slot of the rule, "average", and is of the weight as it is stored, after all regularizers and after rounding; with a
/// master copy it is of the copy, which has more digits.
///
///     (w, s) <- rule(w, g, s)
///     average <- decay * average + (1 - decay) * w
///
/// where 1 - decay is that of the rounded decay (`ema`).
///
/// An average around an average is one more of the same weights: its slot is "average2", the next "average3", to
/// "average9".
///
/// State: the rule's, then average, which starts at the initial weights. In a table a row is averaged over the steps that
/// touch it.
template <class Rule, class Average> struct averaged;

namespace detail {
template <class Rule> inline constexpr int average_count = 0;
template <class Rule, class Average>
inline constexpr int average_count<averaged<Rule, Average>> = average_count<Rule> + 1;

// "average", "average2", ...
template <int Number>
inline constexpr char average_name[] = {'a', 'v', 'e', 'r', 'a', 'g', 'e', Number < 2 ? '\0' : '0' + Number, '\0'};
} // namespace detail

template <class Rule, class Average> struct averaged {
    static_assert(!row_wise_rule<Rule>, "gradstep: averaged goes around a rule that works element by element");
    static_assert(detail::average_count<averaged> <= 9, "gradstep: averaged goes around at most 8 averages");

    Rule rule;
    Average average;
    static constexpr auto members = member_list{member{"rule", &averaged::rule}, member{"average", &averaged::average}};

    template <class X> struct state {
        [[no_unique_address]] typename Rule::template state<X> rule;
        X average;
    };
    static constexpr std::array<char const*, slot_count<Rule> + 1> state_names = [] {
        std::array<char const*, slot_count<Rule> + 1> names{};
        *std::copy(Rule::state_names.begin(), Rule::state_names.end(), names.begin()) =
            detail::average_name<detail::average_count<averaged>>;
        return names;
    }();
    template <std::size_t I, class S> GRADSTEP_HD static auto& slot(S& s) {
        if constexpr (I == slot_count<Rule>) return s.average;
        else return detail::slot<I, Rule>(s.rule);
    }
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {detail::initial_state(rule, w), w}; }

    template <class T> struct coeffs {
        typename Rule::template coeffs<T> rule;
        typename Average::template coeffs<T> average;
        GRADSTEP_INLINE bool is_default() const requires(detail::has_default_form<Rule, T>) {
            return rule.is_default();
        }
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {rule.template prepare<T>(now), average.template prepare<T>()};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> c, V& w, V g, state<V>& s) {
        Rule::apply(c.rule, w, g, s.rule);
    }
    template <class T, pack V>
    GRADSTEP_HD static void apply_default(coeffs<T> c, V& w, V g,
                                          state<V>& s) requires(detail::has_default_form<Rule, T>) {
        Rule::apply_default(c.rule, w, g, s.rule);
    }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> c, V w, state<V>& s) {
        if constexpr (requires { Rule::after(c.rule, w, s.rule); }) Rule::after(c.rule, w, s.rule);
        s.average = c.average(s.average, w);
    }
};
template <class Rule, class Average> averaged(Rule, Average) -> averaged<Rule, Average>;

} // namespace gradstep
