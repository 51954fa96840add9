#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gradstep/core/concepts.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// Whether p is where a group of N elements may be moved at once.
template <std::size_t N, class S> bool is_aligned(S const* p) {
    return reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(S)) == 0;
}

// What a kernel does with all state slots of a rule: `pointers` is where they begin, s a state of packs.
template <class Rule, pack V, class P, class S, class Which, std::size_t... I>
GRADSTEP_HD void load_slots(P const& pointers, S& s, [[maybe_unused]] std::size_t i, [[maybe_unused]] Which which,
                            std::index_sequence<I...>) {
    ((slot<I, Rule>(s) = pack_traits<V>::load(slot<I, Rule>(pointers) + i, which)), ...);
}
template <class Rule, pack V, class P, class S, class Which, std::size_t... I>
GRADSTEP_HD void store_slots(P const& pointers, S const& s, [[maybe_unused]] std::size_t i,
                             [[maybe_unused]] Which which, std::index_sequence<I...>) {
    (pack_traits<V>::store(slot<I, Rule>(pointers) + i, slot<I, Rule>(s), which), ...);
}
template <class Rule, pack V, class P, class Which, std::size_t... I>
GRADSTEP_HD void zero_slots(P const& pointers, [[maybe_unused]] std::size_t i, [[maybe_unused]] Which which,
                            std::index_sequence<I...>) {
    (pack_traits<V>::store(slot<I, Rule>(pointers) + i, V(0), which), ...);
}
template <std::size_t N, class Rule, class P, std::size_t... I>
bool slots_are_aligned(P const& pointers, std::index_sequence<I...>) {
    return (is_aligned<N>(slot<I, Rule>(pointers)) && ...);
}

// Where a kernel reads its gradient. `general_gradient` serves the options of a step that most steps do not use, so
// that the others do not pay for them.
template <class S> struct plain_gradient {
    S const* at;

    template <std::size_t N> bool is_aligned() const { return detail::is_aligned<N>(at); }

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        return pack_traits<V>::load(at + i, which);
    }
};

template <class S, class T> struct general_gradient {
    S const* at;
    S* zeroed; // null, or the gradient itself, which is set to zero as soon as it is read
    T scale;

    template <std::size_t N> bool is_aligned() const { return detail::is_aligned<N>(at); }

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        V const g = math::mul(V(scale), pack_traits<V>::load(at + i, which));
        if (zeroed != nullptr) pack_traits<V>::store(zeroed + i, V(0), which);
        return g;
    }
};

// A gradient that is computed element by element while it is read: an expression of another library.
template <class Reader, class T> struct lazy_gradient {
    static constexpr bool is_lazy = true;
    Reader reader;
    T scale;

    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        static_assert(std::is_same_v<V, T>, "one element at a time: sweep() stages it for wider packs");
        return math::mul(scale, reader.template load<T>(i, which));
    }
};

} // namespace detail

/// The fused update of one element (or one pack of them): read everything once, regularize, apply the rule, write
/// everything once. It holds the prepared scalars and raw pointers, is trivially copyable, and is the kernel that every
/// backend runs.
template <class Element, class Rule, class Regularizer, class Gradient> struct update_kernel {
    using traits = element_traits<Element>;
    using gradient_type = Gradient;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    using slots = std::make_index_sequence<slot_count<Rule>>;

    typename Rule::template coeffs<compute> rule;
    typename Regularizer::template coeffs<compute> regularizer;
    storage* weight;
    Gradient gradient;
    typename Rule::template state<state_type*> state;
    state_type* master; // null unless the element keeps a master copy

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V w = io::load(source() + i, which);
        V g = gradient.template load<V>(i, which);
        typename Rule::template state<V> s;
        detail::load_slots<Rule, V>(state, s, i, which, slots{});

        if constexpr (detail::acts_before<Regularizer>) Regularizer::before(regularizer, w, g);
        Rule::apply(rule, w, g, s);
        if constexpr (detail::acts_after<Regularizer>) Regularizer::after(regularizer, w);

        io::store(weight + i, w, which);
        if constexpr (traits::has_master) io::store(master + i, w, which);
        if constexpr (requires { Rule::after(rule, w, s); }) {
            // What runs last sees the weight as it is stored.
            if constexpr (!traits::has_master && !std::is_same_v<storage, compute>) w = io::load(weight + i, which);
            Rule::after(rule, w, s);
        }
        detail::store_slots<Rule, V>(state, s, i, which, slots{});
    }

    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && gradient.template is_aligned<N>() && detail::is_aligned<N>(master) &&
               detail::slots_are_aligned<N, Rule>(state, slots{});
    }

    // The same update of the elements from `first` on, with another source of the gradient.
    template <class Other> auto from(std::size_t first, Other other) const {
        update_kernel<Element, Rule, Regularizer, Other> out{rule, regularizer, weight + first, other, state, master};
        shift(out.state, first, slots{});
        if constexpr (traits::has_master) out.master += first;
        return out;
    }

private:
    template <class S, std::size_t... I> static void shift(S& pointers, std::size_t first, std::index_sequence<I...>) {
        ((detail::slot<I, Rule>(pointers) += first), ...);
    }
    // The copy of the weight that counts.
    GRADSTEP_HD auto source() const {
        if constexpr (traits::has_master) return master;
        else return weight;
    }
};

/// Sets the state slots of a rule, and the master copy of the element, to their values at step 0.
template <class Element, class Rule> struct initialize_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;
    using slots = std::make_index_sequence<slot_count<Rule>>;

    Rule rule;
    typename traits::storage const* weight;
    typename Rule::template state<typename traits::state*> state;
    typename traits::state* master;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        V const w = pack_traits<V>::load(weight + i, which);
        if constexpr (traits::has_master) pack_traits<V>::store(master + i, w, which);
        if constexpr (requires { rule.template initialize<V>(w); }) {
            detail::store_slots<Rule, V>(state, rule.template initialize<V>(w), i, which, slots{});
        } else {
            detail::zero_slots<Rule, V>(state, i, which, slots{});
        }
    }

    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && detail::is_aligned<N>(master) &&
               detail::slots_are_aligned<N, Rule>(state, slots{});
    }
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
