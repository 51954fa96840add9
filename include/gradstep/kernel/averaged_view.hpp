#pragma once
#include <vector>

#include <gradstep/base/detail/sequence.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/memory/applied_average.hpp>
#include <gradstep/policy/zero_gradient.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Rule> constexpr bool require_average() {
    static_assert(keeps_average<Rule>, "gradstep: average: the rule keeps no average; expected gs::averaged{rule, "
                                       "gs::ema{0.999}}, or with gs::polyak{} or gs::window{...}");
    return keeps_average<Rule>;
}

// Whether a slot depends on the number of steps so far, as the sums of `window`.
template <class Policy>
inline constexpr bool counts_in_state = [] {
    if constexpr (requires { Policy::counts_in_state; }) return Policy::counts_in_state;
    else return requires {
            typename Policy::template arrival<float>;
        };
}();

// A rule for rows that join a table or a parameter after other steps: their state starts with what
// the averages make of these steps (`arrival`). The average of a schedule-free rule starts at the
// value of the row, as at step 0.
template <class Rule, class T> struct arriving_rule : Rule {
    typename Rule::template arrival<T> before;

    template <pack V> GRADSTEP_HD typename Rule::template state<V> initialize(V w) const {
        auto out = initial_state(static_cast<Rule const&>(*this), w);
        this->arrive(before, w, out);
        return out;
    }
};
template <class T, class Rule> auto arriving(Rule const& rule, [[maybe_unused]] std::int64_t step) {
    if constexpr (requires { rule.template arrive<T>(step); })
        return arriving_rule<Rule, T>{rule, rule.template arrive<T>(step)};
    else return rule;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// Writes the average that a rule keeps to `weight`, which must be separate memory. Reads `trained`
/// (the parameter), `master` (its master copy if the element keeps one) and the rule's state of
/// type `state_type`. `traits` are the element's; there is no `gradient_type`; `slots` as in
/// `update_kernel`.
template <class Element, class Rule, class Out> struct average_kernel {
    using traits = element_traits<Element>;
    using state_type = typename traits::state;
    using gradient_type = void;
    using slots = std::make_index_sequence<slot_count<Rule>>;

    typename Rule::template reading<typename traits::compute> reading;
    Out* weight;
    typename traits::storage const* trained;
    typename Rule::template state<state_type*> state;
    state_type const* master;

    /// See `update_kernel::at`.
    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        V const w = detail::load_trained<traits, V>(trained, master, i, which);
        typename Rule::template state<V> s;
        detail::load_slots<Rule, V, true>(state, s, i, which, slots{});
        pack_traits<V>::store(weight + i, Rule::average_of(reading, w, s), which);
    }
    /// See `update_kernel::is_aligned`.
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && detail::is_aligned<N>(trained) && detail::is_aligned<N>(master) &&
               detail::slots_are_aligned<N, Rule>(state, slots{});
    }
};
} // namespace gradstep::inline GRADSTEP_ISA
