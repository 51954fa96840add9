#pragma once
#include <gradstep/kernel/detail/normal.hpp>
#include <gradstep/number/detail/rounding.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/detail/slots.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Whether p is aligned for loads and stores of N elements at once.
template <std::size_t N, class S> bool is_aligned(S const* p) {
    return reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(S)) == 0;
}

// Whether most steps neither read nor write slot i of a rule (`is_rare_slot`).
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

// Whether steps change the weight after all regularizers, and before it is rounded (`pull`):
// lookahead in rare steps, towards_initial in every step.
template <class Rule>
inline constexpr bool pulls_weight = [] {
    if constexpr (requires { Rule::pulls_weight; }) return Rule::pulls_weight;
    else return false;
}();
template <class Rule>
inline constexpr bool pulls_every_step = [] {
    if constexpr (requires { Rule::pulls_every_step; }) return Rule::pulls_every_step;
    else return false;
}();

// Whether the state contains weights, which follow a weight that other code sets (`weights_set`).
template <class Rule>
inline constexpr bool contains_weights = requires(Rule const& of, typename Rule::template state<float>& s) {
    of.weights_set(std::int64_t(), 0.0f, s);
};

// If the loop of a rule is limited by the divider: how many of four packs compute their roots
// without it. Otherwise -1.
template <class Rule>
inline constexpr int newton_roots_of = [] {
    if constexpr (requires { Rule::newton_roots; }) {
        static_assert(Rule::newton_roots <= 2,
                      "gradstep: rule: `newton_roots` is more than 2; expected 0, 1 or 2, of four registers");
        return Rule::newton_roots;
    } else {
        return -1;
    }
}();

// Loads and stores the state slots of a rule: all, or all except the rare ones. `pointers` are the
// beginnings of the slots; s is a state of packs.
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

// Only the initial values of a rule. initialize_kernel is compiled once for all rules with the same
// number of slots.
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

// The same for the row slots, in T.
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

// Loads the weight of element i from which a step continues. If the element keeps a master copy,
// this is the copy, unless the parameter differs from the copy's rounded value: then other code has
// written the parameter, and this is the parameter.
template <class Traits, pack V, class Which>
GRADSTEP_HD V load_trained(typename Traits::storage const* weight,
                           [[maybe_unused]] typename Traits::state const* master, std::size_t i, Which which) {
    using io = pack_traits<V>;
    V const stored = io::load(weight + i, which);
    if constexpr (Traits::has_master)
        return io::template trained<typename Traits::storage>(io::load(master + i, which), stored);
    else return stored;
}

// Readers of the gradient. `general_gradient` implements the options that few steps use, so that
// other steps do not pay for them.
template <class S> struct plain_gradient {
    S const* at;

    template <std::size_t N> bool is_aligned() const { return detail::is_aligned<N>(at); }

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        return pack_traits<V>::load(at + i, which);
    }
    template <pack V, class Which> GRADSTEP_HD V peek(std::size_t i, Which which) const { return load<V>(i, which); }
};

// The reader of steps without options, of the step or of the rule: nearly all steps. In these, a
// rule can leave out the operations of its options (`apply_default`, docs/how_to/add_a_rule.md) and
// rare slots.
template <class S> struct default_gradient : plain_gradient<S> {
    static constexpr bool in_default_form = true, skips_rare_slots = true;
};

template <class S, class T> struct general_gradient {
    S const* at;
    S* zeroed; // null, or the gradient itself: set to zero after each load
    T scale;

    template <std::size_t N> bool is_aligned() const { return detail::is_aligned<N>(at); }

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        V const g = peek<V>(i, which);
        if (zeroed != nullptr) pack_traits<V>::store(zeroed + i, V(0), which);
        return g;
    }
    // Reads without setting to zero. Use it for every read except the last.
    template <pack V, class Which> GRADSTEP_HD V peek(std::size_t i, Which which) const {
        return math::mul(V(scale), pack_traits<V>::load(at + i, which));
    }
};

// The same for steps that skip the rare slots of the rule.
template <class S, class T> struct rare_skipping_gradient : general_gradient<S, T> {
    static constexpr bool skips_rare_slots = true;
};

// A gradient that is computed element by element during reading: an expression of another library.
template <class Reader, class T> struct lazy_gradient {
    static constexpr bool is_lazy = true;
    Reader reader;
    T scale;

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        static_assert(std::is_same_v<V, T>, "one element at a time: sweep() stages it for wider packs");
        return math::mul(scale, reader.template load<T>(i, which));
    }
};

// The result of `finalize`, if the rule is row-wise or model-wise.
struct no_settled {};
template <class Rule, class T> using settled_for = std::conditional_t<settled_rule<Rule>, settled<Rule, T>, no_settled>;

// Whether a rule has a form of its step without the operations of its options.
template <class Rule, class T>
concept has_default_form = requires(typename Rule::template coeffs<T> c, T& w, T g,
                                    typename Rule::template state<T>& s) {
    { c.is_default() } -> std::convertible_to<bool>;
    Rule::apply_default(c, w, g, s);
};

// The random words of stochastic rounding, if the element has it.
struct no_rounding_words {};
template <class Element>
using rounding_of = std::conditional_t<element_traits<Element>::is_stochastic, element_words, no_rounding_words>;

// The pending steps of a row before its step. None outside tables; rows/detail/missed.hpp has the
// others.
struct no_missed_steps {
    template <pack V, class S> GRADSTEP_HD void operator()(V&, S&) const {}
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// The fused update of one element, or of one pack of elements. It reads everything once, catches
/// up, regularizes, applies the rule, and writes everything once. It contains the prepared scalars
/// and raw pointers, is trivially copyable, and is the kernel that every backend runs.
///
/// Its types: `rule_type`, `regularizer_type` and `traits`; `gradient_type`, the reader of the
/// gradient; `compute`, `storage` and `state_type`, the types of the arithmetic, the parameter and
/// the state in memory.
/// Its constants: `slots`, the indices of the slots; `in_default_form`, whether it runs the rule's
/// `apply_default`; `sees_all_slots`, whether it also reads and writes the rare slots.
template <class Element, class Rule, class Regularizer, class Gradient, class Missed = detail::no_missed_steps>
struct update_kernel {
    using rule_type = Rule;
    using regularizer_type = Regularizer;
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
    static constexpr bool sees_all_slots = detail::rare_slot_count<Rule> == 0 || !requires {
        Gradient::skips_rare_slots;
    };
    static_assert(!traits::has_master || std::is_same_v<state_type, compute>,
                  "gradstep: element: it keeps a master copy, and its `state` is not its `compute`; expected the type "
                  "of the arithmetic");

    typename Rule::template coeffs<compute> rule;
    typename Regularizer::template coeffs<compute> regularizer;
    storage* weight;
    Gradient gradient;
    typename Rule::template state<state_type*> state;
    state_type* master; // null unless the element keeps a master copy
    GRADSTEP_NO_UNIQUE_ADDRESS Missed missed = {};
    GRADSTEP_NO_UNIQUE_ADDRESS detail::settled_for<Rule, compute> settled = {};
    GRADSTEP_NO_UNIQUE_ADDRESS detail::rounding_of<Element> rounding = {};
    GRADSTEP_NO_UNIQUE_ADDRESS detail::noise_of<Rule> noise = {};

    /// Updates element i, or the elements from i on in the lanes of the pack V that `which`
    /// selects.
    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V w = detail::load_trained<traits, V>(weight, master, i, which);
        V g = gradient.template load<V>(i, which);
        typename Rule::template state<V> s;
        detail::load_slots<Rule, V, sees_all_slots>(state, s, i, which, slots{});

        missed(w, s);
        if constexpr (detail::acts_before<Regularizer>) Regularizer::before(regularizer, w, g);
        [[maybe_unused]] V const old = w;
        if constexpr (settled_rule<Rule>) Rule::apply(rule, settled, w, g, s);
        else if constexpr (noisy_rule<Rule>) Rule::apply(rule, w, g, s, detail::standard_normal<V>(noise, i));
        else if constexpr (in_default_form) Rule::apply_default(rule, w, g, s);
        else Rule::apply(rule, w, g, s);
        detail::act_after<Regularizer>(regularizer, old, w);
        if constexpr (detail::pulls_every_step<Rule> || (detail::pulls_weight<Rule> && sees_all_slots))
            Rule::pull(rule, w, s);

        if constexpr (traits::is_stochastic) w = detail::stochastically_rounded<storage>(w, rounding, i);
        io::store(weight + i, w, which);
        if constexpr (traits::has_master) io::store(master + i, w, which);
        if constexpr (requires { Rule::after(rule, w, s); }) {
            // `after` gets the weight as it is stored, or the master copy if there is one.
            if constexpr (!traits::has_master && !std::is_same_v<storage, compute>) w = io::load(weight + i, which);
            if constexpr (detail::rare_slot_count<Rule> != 0 && sees_all_slots) Rule::after_rarely(rule, w, s);
            else Rule::after(rule, w, s);
        }
        detail::store_slots<Rule, V, sees_all_slots>(state, s, i, which, slots{});
    }

    /// The partial sums of a row-wise or model-wise rule for an element, before its step. Writes
    /// nothing.
    template <pack V, class Which> GRADSTEP_HD auto accumulate(std::size_t i, Which which) const {
        V w = detail::load_trained<traits, V>(weight, master, i, which);
        V g = gradient.template peek<V>(i, which);
        typename Rule::template state<V> s;
        detail::load_slots<Rule, V, true>(state, s, i, which, slots{});
        missed(w, s);
        [[maybe_unused]] V const given = w;
        if constexpr (detail::acts_before<Regularizer>) Regularizer::before(regularizer, w, g);
        if constexpr (model_wise_rule<Rule>) return Rule::accumulate(rule, given, g, s);
        else return Rule::accumulate(rule, w, g, s);
    }

    /// Whether all buffers are aligned for loads and stores of N elements at once.
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && gradient.template is_aligned<N>() && detail::is_aligned<N>(master) &&
               detail::slots_are_aligned<N, Rule>(state, slots{});
    }

    /// The same update for the elements from `first` on, with another reader of the gradient.
    template <class Other> auto from(std::size_t first, Other other) const {
        auto there = state;
        shift(there, first, slots{});
        return from(first, other, there);
    }
    /// The same with the state of these elements in other memory.
    template <class Other>
    auto from(std::size_t first, Other other, typename Rule::template state<state_type*> there) const {
        update_kernel<Element, Rule, Regularizer, Other, Missed> out{
            rule, regularizer, weight + first, other, there, master, missed, settled, rounding, noise};
        if constexpr (traits::has_master) out.master += first;
        if constexpr (traits::is_stochastic) out.rounding = out.rounding.from(first);
        if constexpr (noisy_rule<Rule>) out.noise = out.noise.from(first);
        return out;
    }

private:
    template <class S, std::size_t... I>
    static void shift(S& pointers, [[maybe_unused]] std::size_t first, std::index_sequence<I...>) {
        ((detail::slot<I, Rule>(pointers) += first), ...);
    }
};

/// Sets the state slots of a rule, and the master copy of the element, to their values at step 0.
/// Its `traits` and `slots` are the same as in `update_kernel`; its `gradient_type` is void.
template <class Element, class Rule> struct initialize_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;
    using slots = std::make_index_sequence<slot_count<Rule>>;

    /// Whether a slot begins with the parameter. Otherwise `weight` is not read, and can be null.
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

/// Changes the state between steps: calls change(w, s) with the weight and the slots of each
/// element. If `Change::weight_is_set`, other code has set the weight, and the master copy becomes
/// the weight. Its `traits`, `slots` and `gradient_type` are the same as in `initialize_kernel`.
template <class Element, class Rule, class Change> struct state_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;
    using slots = std::make_index_sequence<slot_count<Rule>>;

    Change change;
    typename traits::storage const* weight;
    typename Rule::template state<typename traits::state*> state;
    typename traits::state* master;

    /// See `update_kernel::at`.
    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        V w = pack_traits<V>::load(weight + i, which);
        if constexpr (!Change::weight_is_set) w = detail::load_trained<traits, V>(weight, master, i, which);
        else if constexpr (traits::has_master) pack_traits<V>::store(master + i, w, which);
        typename Rule::template state<V> s;
        detail::load_slots<Rule, V, true>(state, s, i, which, slots{});
        change(w, s);
        detail::store_slots<Rule, V, true>(state, s, i, which, slots{});
    }
    /// See `update_kernel::is_aligned`.
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && detail::is_aligned<N>(master) &&
               detail::slots_are_aligned<N, Rule>(state, slots{});
    }
};

/// Sets the row slots of a row-wise rule, which have one number for each row or tensor, to their
/// values at step 0. Element i is row i. `traits` and `gradient_type` are the same as in
/// `initialize_kernel`; `slots` is the number of row slots.
template <class Element, class Rule> struct initialize_row_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;
    static constexpr std::size_t slots = row_slot_count<Rule>;

    Rule rule;
    row_state<Rule, typename traits::state*> row;
    typename traits::state* weight = nullptr; // sweep() aligns to it

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
} // namespace gradstep::inline GRADSTEP_ISA
