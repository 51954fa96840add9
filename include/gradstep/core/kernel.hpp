#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradstep/core/concepts.hpp>
#include <gradstep/core/rounding.hpp>
#include <gradstep/core/slots.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// Whether p is where a group of N elements may be moved at once.
template <std::size_t N, class S> bool is_aligned(S const* p) {
    return reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(S)) == 0;
}

// Whether most steps leave slot i of a rule alone (`is_rare_slot`), or any slot.
template <class Rule> constexpr bool is_rare_slot([[maybe_unused]] std::size_t i) {
    if constexpr (requires { Rule::is_rare_slot(i); }) return Rule::is_rare_slot(i);
    else return false;
}
template <class Rule>
constexpr std::size_t rare_slot_count = [] {
    std::size_t count = 0;
    for (std::size_t i = 0; i != slot_count<Rule>; ++i) count += is_rare_slot<Rule>(i);
    return count;
}();

// The same as a constant, for kernels.
template <class Rule, std::size_t I> inline constexpr bool rare_slot = is_rare_slot<Rule>(I);

// How many of four packs compute their roots without the divider, if a rule's loop waits for the
// divider; else -1.
template <class Rule>
inline constexpr int newton_roots_of = [] {
    if constexpr (requires { Rule::newton_roots; }) {
        static_assert(Rule::newton_roots <= 2, "gradstep: `newton_roots` of a rule is 0, 1 or 2: of four registers");
        return Rule::newton_roots;
    } else {
        return -1;
    }
}();

// Loads and stores the state slots of a rule: all, or all except the rare ones. `pointers` says where
// the slots begin; s is a state of packs.
template <class Rule, pack V, bool all, class P, class S, class Which, std::size_t... I>
GRADSTEP_HD void load_slots(P const& pointers, S& s, [[maybe_unused]] std::size_t i, [[maybe_unused]] Which which,
                            std::index_sequence<I...>) {
    ((slot<I, Rule>(s) = all || !rare_slot<Rule, I> ? pack_traits<V>::load(slot<I, Rule>(pointers) + i, which) : V(0)),
     ...);
}
template <class Rule, pack V, bool all, class P, class S, class Which, std::size_t... I>
GRADSTEP_HD void store_slots(P const& pointers, S const& s, [[maybe_unused]] std::size_t i,
                             [[maybe_unused]] Which which, std::index_sequence<I...>) {
    ((all || !rare_slot<Rule, I> ? pack_traits<V>::store(slot<I, Rule>(pointers) + i, slot<I, Rule>(s), which)
                                 : void()),
     ...);
}

// The slots of a rule at step 0: zero, or numbers that the rule names (`initial`), or a function of
// the weight (`initialize`).
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
// A rule as far as its first numbers: what begins the tensors of all rules with as many slots,
// compiled once for them.
template <std::size_t Slots> struct initial_numbers {
    template <class X> struct state { X slots[Slots + 1]; }; // 0 is not a valid length
    static constexpr std::array<char const*, Slots> state_names{};
    template <std::size_t I, class S> GRADSTEP_HD static auto& slot(S& s) { return s.slots[I]; }

    state<double> first;

    template <class Rule> static initial_numbers of(Rule const& rule) {
        initial_numbers out{};
        auto first = initial_state(rule, 0.0);
        host_each<Slots>([&](auto i) { out.first.slots[i] = detail::slot<i, Rule>(first); });
        return out;
    }
    GRADSTEP_HD state<double> initial() const { return first; }
};

// The same of what a row has once, in T.
template <class T, class Rule> GRADSTEP_HD row_state<Rule, T> initial_row_state([[maybe_unused]] Rule const& rule) {
    constexpr std::size_t slots = row_slot_count<Rule>;
    row_state<Rule, double> first = {};
    if constexpr (requires { rule.row_initial(); }) first = rule.row_initial();
    row_state<Rule, T> row;
    each<slots>([&](auto i) GRADSTEP_INLINE_LAMBDA { nth<i, slots>(row) = T(nth<i, slots>(first)); });
    return row;
}
template <std::size_t N, class Rule, class P, std::size_t... I>
bool slots_are_aligned(P const& pointers, std::index_sequence<I...>) {
    return (is_aligned<N>(slot<I, Rule>(pointers)) && ...);
}

// Loads the weight of element i from which a step goes on. If the element keeps a master copy, this
// is the copy. But if the parameter is not the copy's rounded value, other code has written the
// parameter, and this is the parameter.
template <class Traits, pack V, class Which>
GRADSTEP_HD V load_trained(typename Traits::storage const* weight,
                           [[maybe_unused]] typename Traits::state const* master, std::size_t i, Which which) {
    using io = pack_traits<V>;
    V const stored = io::load(weight + i, which);
    if constexpr (Traits::has_master)
        return io::template trained<typename Traits::storage>(io::load(master + i, which), stored);
    else return stored;
}

// Where a kernel reads its gradient. `general_gradient` serves the options of a step that most
// steps do not use, so that the others do not pay for them.
template <class S> struct plain_gradient {
    S const* at;

    template <std::size_t N> bool is_aligned() const { return detail::is_aligned<N>(at); }

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        return pack_traits<V>::load(at + i, which);
    }
    template <pack V, class Which> GRADSTEP_HD V peek(std::size_t i, Which which) const { return load<V>(i, which); }
};

// The same in a step that uses no option, neither of the step nor of the rule: nearly every step. A
// rule may leave out there what its options cost (`apply_default`, docs/adding_a_rule.md), and
// slots that most steps leave alone.
template <class S> struct default_gradient : plain_gradient<S> {
    static constexpr bool in_default_form = true, is_quiet = true;
};

template <class S, class T> struct general_gradient {
    S const* at;
    S* zeroed; // null, or the gradient itself, which is set to zero as soon as it is read
    T scale;

    template <std::size_t N> bool is_aligned() const { return detail::is_aligned<N>(at); }

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        V const g = peek<V>(i, which);
        if (zeroed != nullptr) pack_traits<V>::store(zeroed + i, V(0), which);
        return g;
    }
    // Without setting it to zero: who reads it twice peeks first.
    template <pack V, class Which> GRADSTEP_HD V peek(std::size_t i, Which which) const {
        return math::mul(V(scale), pack_traits<V>::load(at + i, which));
    }
};

// The same in a step that leaves the rare slots of its rule alone.
template <class S, class T> struct quiet_gradient : general_gradient<S, T> { static constexpr bool is_quiet = true; };

// A gradient that is computed element by element while it is read: an expression of another
// library.
template <class Reader, class T> struct lazy_gradient {
    static constexpr bool is_lazy = true;
    Reader reader;
    T scale;

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        static_assert(std::is_same_v<V, T>, "one element at a time: sweep() stages it for wider packs");
        return math::mul(scale, reader.template load<T>(i, which));
    }
};

// What `finalize` found for a row, where the rule is row-wise.
struct nothing_settled {};
template <class Rule, class T> using settled_for = std::conditional_t<row_wise_rule<Rule>, T, nothing_settled>;

// Whether a rule says how its step is without the operations that its options cost.
template <class Rule, class T>
concept has_default_form = requires(typename Rule::template coeffs<T> c, T& w, T g,
                                    typename Rule::template state<T>& s) {
    { c.is_default() } -> std::convertible_to<bool>;
    Rule::apply_default(c, w, g, s);
};

// The random words of stochastic rounding, where the element rounds so.
struct no_words {};
template <class Element>
using rounding_of = std::conditional_t<element_traits<Element>::is_stochastic, element_words, no_words>;

// What a row has to catch up on before its step: nothing, outside tables (sparse/missed.hpp has the
// others).
struct nothing_missed {
    template <pack V, class S> GRADSTEP_HD void operator()(V&, S&) const {}
};

} // namespace GRADSTEP_ISA
} // namespace detail

inline namespace GRADSTEP_ISA {
/// The fused update of one element (or one pack of them): read everything once, catch up,
/// regularize, apply the rule, write everything once. It holds the prepared scalars and raw
/// pointers, is trivially copyable, and is the kernel that every backend runs.
///
/// It names its policies' types, `rule_type` and `traits`, where its gradient comes from,
/// `gradient_type`, the types of the arithmetic, of the parameter and of the state in memory,
/// `compute`, `storage` and `state_type`, the numbers of its `slots`, whether it runs the rule's
/// `in_default_form`, and whether it `sees_all_slots` or leaves alone those that most steps do.
template <class Element, class Rule, class Regularizer, class Gradient, class Missed = detail::nothing_missed>
struct update_kernel {
    using rule_type = Rule;
    using traits = element_traits<Element>;
    using gradient_type = Gradient;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    using slots = std::make_index_sequence<slot_count<Rule>>;
    // In parentheses for nvcc, which would end the initializer at the comma.
    static constexpr bool in_default_form = (detail::has_default_form<Rule, compute>)&&requires {
        Gradient::in_default_form;
    };
    static constexpr bool sees_all_slots = detail::rare_slot_count<Rule> == 0 || !requires { Gradient::is_quiet; };
    static_assert(
        !traits::has_master || std::is_same_v<state_type, compute>,
        "gradstep: a master copy is of the type of the arithmetic: the element's `state` must be its `compute`");

    typename Rule::template coeffs<compute> rule;
    typename Regularizer::template coeffs<compute> regularizer;
    storage* weight;
    Gradient gradient;
    typename Rule::template state<state_type*> state;
    state_type* master; // null unless the element keeps a master copy
    [[no_unique_address]] Missed missed = {};
    [[no_unique_address]] detail::settled_for<Rule, compute> settled = {};
    [[no_unique_address]] detail::rounding_of<Element> rounding = {};

    /// Updates element i, or as many from i on as the pack V has lanes, of which `which` says those
    /// that take part.
    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V w = detail::load_trained<traits, V>(weight, master, i, which);
        V g = gradient.template load<V>(i, which);
        typename Rule::template state<V> s;
        detail::load_slots<Rule, V, sees_all_slots>(state, s, i, which, slots{});

        missed(w, s);
        if constexpr (detail::acts_before<Regularizer>) Regularizer::before(regularizer, w, g);
        if constexpr (row_wise_rule<Rule>) Rule::apply(rule, settled, w, g, s);
        else if constexpr (in_default_form) Rule::apply_default(rule, w, g, s);
        else Rule::apply(rule, w, g, s);
        if constexpr (detail::acts_after<Regularizer>) Regularizer::after(regularizer, w);

        if constexpr (traits::is_stochastic) w = detail::stochastically_rounded<storage>(w, rounding, i);
        io::store(weight + i, w, which);
        if constexpr (traits::has_master) io::store(master + i, w, which);
        if constexpr (requires { Rule::after(rule, w, s); }) {
            // What runs last sees the weight as it is stored; where there is a master copy, that
            // copy.
            if constexpr (!traits::has_master && !std::is_same_v<storage, compute>) w = io::load(weight + i, which);
            if constexpr (detail::rare_slot_count<Rule> != 0 && sees_all_slots) Rule::after_rarely(rule, w, s);
            else Rule::after(rule, w, s);
        }
        detail::store_slots<Rule, V, sees_all_slots>(state, s, i, which, slots{});
    }

    /// What a row-wise rule sees of an element before its step. Nothing is written.
    template <pack V, class Which> GRADSTEP_HD auto accumulate(std::size_t i, Which which) const {
        V w = detail::load_trained<traits, V>(weight, master, i, which);
        V g = gradient.template peek<V>(i, which);
        typename Rule::template state<V> s;
        detail::load_slots<Rule, V, true>(state, s, i, which, slots{});
        missed(w, s);
        if constexpr (detail::acts_before<Regularizer>) Regularizer::before(regularizer, w, g);
        return Rule::accumulate(rule, w, g, s);
    }

    /// Whether groups of N elements may be moved at once in every buffer.
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && gradient.template is_aligned<N>() && detail::is_aligned<N>(master) &&
               detail::slots_are_aligned<N, Rule>(state, slots{});
    }

    /// The same update of the elements from `first` on, with another source of the gradient.
    template <class Other> auto from(std::size_t first, Other other) const {
        auto there = state;
        shift(there, first, slots{});
        return from(first, other, there);
    }
    /// The same with the state of these elements elsewhere.
    template <class Other>
    auto from(std::size_t first, Other other, typename Rule::template state<state_type*> there) const {
        update_kernel<Element, Rule, Regularizer, Other, Missed> out{
            rule, regularizer, weight + first, other, there, master, missed, settled, rounding};
        if constexpr (traits::has_master) out.master += first;
        if constexpr (traits::is_stochastic) out.rounding = out.rounding.from(first);
        return out;
    }

private:
    template <class S, std::size_t... I>
    static void shift(S& pointers, [[maybe_unused]] std::size_t first, std::index_sequence<I...>) {
        ((detail::slot<I, Rule>(pointers) += first), ...);
    }
};

/// Sets the state slots of a rule, and the master copy of the element, to their values at step 0.
/// Its `traits`, `gradient_type` (there is none) and `slots` are as in `update_kernel`.
template <class Element, class Rule> struct initialize_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;
    using slots = std::make_index_sequence<slot_count<Rule>>;

    /// Whether a slot begins with the parameter; else `weight` is not read, and may be null.
    static constexpr bool reads_weight = traits::has_master || requires(Rule const& r) {
        r.template initialize<float>(0.0f);
    };

    Rule rule;
    typename traits::storage const* weight;
    typename Rule::template state<typename traits::state*> state;
    typename traits::state* master;

    /// See `update_kernel::at`.
    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        V w(typename traits::compute(0));
        if constexpr (reads_weight) w = pack_traits<V>::load(weight + i, which);
        if constexpr (traits::has_master) pack_traits<V>::store(master + i, w, which);
        detail::store_slots<Rule, V, true>(state, detail::initial_state(rule, w), i, which, slots{});
    }

    /// See `update_kernel::is_aligned`.
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && detail::is_aligned<N>(master) &&
               detail::slots_are_aligned<N, Rule>(state, slots{});
    }
};

/// Sets the slots that a row-wise rule has once for a row, or a tensor, to their values at step 0;
/// element i is row i. Its `traits` and `gradient_type` are as in `initialize_kernel`, and it has
/// so many `slots`.
template <class Element, class Rule> struct initialize_row_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;
    static constexpr std::size_t slots = row_slot_count<Rule>;

    Rule rule;
    row_state<Rule, typename traits::state*> row;
    typename traits::state* weight = nullptr; // sweep() aligns by it

    /// See `update_kernel::at`.
    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        auto const first = detail::initial_row_state<typename traits::compute>(rule);
        detail::each<slots>([&](auto k) GRADSTEP_INLINE_LAMBDA {
            pack_traits<V>::store(detail::nth<k, slots>(row) + i, V(detail::nth<k, slots>(first)), which);
        });
    }
    /// See `update_kernel::is_aligned`.
    template <std::size_t N> bool is_aligned() const { return false; }
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
