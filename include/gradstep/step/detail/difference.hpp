#pragma once
#include <gradstep/kernel/detail/copying_kernel.hpp>
#include <gradstep/memory/buffer.hpp>

// What `step::difference` compiles, and other steps do not.
namespace gradstep::detail::inline GRADSTEP_ISA {
// An update that writes the change of each weight to `out`, and leaves the weight as it is. `at`
// has the lines of `update_kernel::at`, and another store: one function for both would change the
// instructions of the step in place.
template <class Update> struct difference_kernel : Update {
    using rule_type = typename Update::rule_type;
    using regularizer_type = typename Update::regularizer_type;
    using traits = typename Update::traits;
    using storage = typename Update::storage;
    using compute = typename Update::compute;
    using slots = typename Update::slots;
    static constexpr bool sees_all_slots = Update::sees_all_slots;

    storage* out; // for the elements from `first` on
    std::size_t first;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V const before = io::load(this->weight + i, which);
        V w = load_trained<traits, V>(this->weight, this->master, i, which);
        V g = this->gradient.template load<V>(i, which);
        typename rule_type::template state<V> s;
        load_slots<rule_type, V, sees_all_slots>(this->state, s, i, which, slots{});

        if constexpr (acts_before<regularizer_type>) regularizer_type::before(this->regularizer, w, g);
        [[maybe_unused]] V const old = w;
        if constexpr (settled_rule<rule_type>) rule_type::apply(this->rule, this->settled, w, g, s);
        else if constexpr (noisy_rule<rule_type>)
            rule_type::apply(this->rule, w, g, s, standard_normal<V>(this->noise, i));
        else if constexpr (Update::in_default_form) rule_type::apply_default(this->rule, w, g, s);
        else rule_type::apply(this->rule, w, g, s);
        act_after<regularizer_type>(this->regularizer, old, w);
        if constexpr (pulls_every_step<rule_type> || (pulls_weight<rule_type> && sees_all_slots))
            rule_type::pull(this->rule, w, s);

        if constexpr (traits::is_stochastic) w = stochastically_rounded<storage>(w, this->rounding, i);
        V const stored = rounded(w);
        io::store(out + (i - first), stored - before, which);
        if constexpr (traits::has_master) io::store(this->master + i, w, which);
        if constexpr (requires { rule_type::after(this->rule, w, s); }) {
            if constexpr (!traits::has_master) w = stored;
            if constexpr (rare_slot_count<rule_type> != 0 && sees_all_slots) rule_type::after_rarely(this->rule, w, s);
            else rule_type::after(this->rule, w, s);
        }
        store_slots<rule_type, V, sees_all_slots>(this->state, s, i, which, slots{});
    }
    // The same for the elements from i on, with another reader of the gradient.
    template <class Other> auto from(std::size_t i, Other other) const {
        using moved = decltype(Update::from(i, other));
        return difference_kernel<moved>{Update::from(i, other), out + (i - first), 0};
    }

private:
    // A weight as memory would have it.
    template <pack V> GRADSTEP_HD static V rounded(V w) {
        if constexpr (std::is_same_v<storage, compute>) return w;
        alignas(64) storage memory[pack_traits<V>::size];
        pack_traits<V>::store(memory, w, all_lanes{});
        return pack_traits<V>::load(memory, all_lanes{});
    }
};

// What the backend runs.
template <class Update> struct written_difference : difference_kernel<Update> {};

// Copies n numbers, past the caches if the memory allows it. Out of line, for all updates.
template <class S> [[gnu::noinline]] void stream_chunk(S const* from, S* to, std::size_t n) {
    std::size_t i = 0;
#if defined(__SSE2__)
    constexpr std::size_t unit = sizeof(__m128i) / sizeof(S);
    if (is_aligned<unit>(to))
        for (; i + unit <= n; i += unit)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                             _mm_load_si128(reinterpret_cast<__m128i const*>(from + i)));
#endif
    for (; i < n; ++i) to[i] = from[i];
}

// If the caches are too small for the call, the differences go through a chunk in the first-level
// cache, and from there past the caches, which then need not read the lines that are written.
template <pack V, class Update>
GRADSTEP_INLINE void sweep(written_difference<Update> const& shared, std::size_t i, std::size_t end,
                           bool is_cached = false) {
    using storage = typename Update::storage;
    constexpr std::size_t chunk = 1024, line = 64 / sizeof(storage);
    difference_kernel<Update> kernel = shared;
    alignas(64) std::byte memory[chunk * sizeof(storage)]; // without the zeros that bfloat16 starts with
    while (i < end) {
        std::size_t next = end;
        storage* const to = shared.out + i;
        if (!is_cached) { // each chunk except the first begins on a line
            auto const address = reinterpret_cast<std::uintptr_t>(to) / sizeof(storage);
            next = std::min(end, i + chunk - static_cast<std::size_t>(address % line));
            kernel.out = reinterpret_cast<storage*>(memory);
            kernel.first = i;
        }
        sweep<V>(kernel, i, next, is_cached);
        if (!is_cached) stream_chunk(static_cast<storage const*>(kernel.out), to, next - i);
        i = next;
    }
    if (!is_cached) end_stream();
}

// A buffer that a step reads and does not write, in the form of a parameter.
template <class S, class W> decltype(auto) as_parameter(W const& weight) {
    if constexpr (!contiguous_buffer<W const>) return const_cast<W&>(weight); // refused where it is used
    else if constexpr (is_writable<W>()) return const_cast<W&>(weight);
    else return std::span<S>(const_cast<S*>(traits_of<W>::data(weight)), traits_of<W>::size(weight));
}

// For steps that have no `difference`.
struct without_difference {
    template <class... Buffers> void difference(Buffers&&...) const {
        static_assert(sizeof...(Buffers) == SIZE_MAX,
                      "gradstep: step.difference: this rule reads the whole model or matrix before it writes, and its "
                      "step has no difference; expected an elementwise or row-wise rule");
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
