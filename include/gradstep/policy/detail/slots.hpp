#pragma once
#include <gradstep/policy/concepts.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
#if defined(__CUDACC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 836 // nvcc takes a structured binding to a reference for a local variable
#endif
// The I-th of the N members of an aggregate.
template <std::size_t I, std::size_t N, class S> GRADSTEP_HD auto& nth(S& aggregate) {
    if constexpr (N == 1) {
        auto& [a] = aggregate;
        return a;
    } else if constexpr (N == 2) {
        auto& [a, b] = aggregate;
        if constexpr (I == 0) return a;
        else return b;
    } else if constexpr (N == 3) {
        auto& [a, b, c] = aggregate;
        if constexpr (I == 0) return a;
        else if constexpr (I == 1) return b;
        else return c;
    } else {
        static_assert(N == 4, "gradstep: rule: it has more than 4 state slots, or a nested state; expected `template "
                              "<std::size_t I, class S> GRADSTEP_HD static auto& slot(S& state)`");
        auto& [a, b, c, d] = aggregate;
        if constexpr (I == 0) return a;
        else if constexpr (I == 1) return b;
        else if constexpr (I == 2) return c;
        else return d;
    }
}
#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif

// The I-th slot of a state: the rule's own `slot<I>` if its state is nested, else the I-th member.
template <std::size_t I, class R, class S> GRADSTEP_HD auto& slot(S& state) {
    if constexpr (requires { R::template slot<I>(state); }) return R::template slot<I>(state);
    else return nth<I, slot_count<R>>(state);
}

// A number as a type: std::integral_constant, also for kernels.
template <std::size_t I> struct index_constant {
    GRADSTEP_HD constexpr operator std::size_t() const { return I; }
};
// Calls f(index_constant 0) to f(index_constant N - 1).
template <std::size_t N, class F> GRADSTEP_HD void each(F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) GRADSTEP_INLINE_LAMBDA { (f(index_constant<I>{}), ...); }
    (std::make_index_sequence<N>{});
}
// The same in functions that run on the host only: nvcc distinguishes their lambdas.
template <std::size_t N, class F> GRADSTEP_INLINE void host_each(F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) GRADSTEP_INLINE_LAMBDA { (f(index_constant<I>{}), ...); }
    (std::make_index_sequence<N>{});
}

// The slots of a rule at step 0: zero, constants of the rule (`initial`), or a function of the
// weight (`initialize`).
template <class Rule, pack V>
GRADSTEP_HD typename Rule::template state<V> initial_state([[maybe_unused]] Rule const& rule, [[maybe_unused]] V w) {
    if constexpr (requires { rule.template initialize<V>(w); }) {
        return rule.template initialize<V>(w);
    } else {
        typename Rule::template state<double> first = {};
        if constexpr (requires { rule.initial(); }) first = rule.initial();
        typename Rule::template state<V> s;
        each<slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
            slot<i, Rule>(s) = V(typename pack_traits<V>::value_type(slot<i, Rule>(first)));
        });
        return s;
    }
}

// Calls f(0) to f(packs - 1), unrolled if there are few: sums without a variable index stay in
// registers. With more packs, an f for each would be compiled in vain.
template <std::size_t packs, class F> GRADSTEP_INLINE void each_pack(F const& f) {
    if constexpr (packs <= 8) host_each<packs>(f);
    else
        for (std::size_t p = 0; p < packs; ++p) f(p);
}

// The number of the slot of this name, or of all slots if there is none.
template <class Updater> constexpr std::size_t slot_named(std::string_view name) {
    std::size_t i = 0;
    while (i < Updater::slots && Updater::state_names[i] != name) ++i;
    return i;
}
// The names of the slots of a tensor: the rule's, those for a row, the factors, the master copy.
template <class Rule, class Traits, std::size_t Slots> constexpr auto all_state_names() {
    std::array<char const*, Slots> names{};
    auto next = std::copy(Rule::state_names.begin(), Rule::state_names.end(), names.begin());
    if constexpr (row_slot_count<Rule> != 0)
        next = std::copy(Rule::row_state_names.begin(), Rule::row_state_names.end(), next);
    for (factor_slot const& slot : factor_slots_of<Rule>()) *next++ = slot.name;
    if constexpr (Traits::has_master) names[Slots - 1] = "master";
    return names;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
