#pragma once
#include <gradstep/kernel/kernel.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Whether the divider limits the loop over a rule's kernel in cache (docs/how_to/add_a_rule.md),
// and whether packs V have a body for such loops. Kernels for the options of a step have none: each
// body compiles the whole update again.
template <class Kernel> concept waits_for_divider = (newton_roots_of<typename Kernel::rule_type> >= 0) && requires {
    Kernel::gradient_type::in_default_form;
};
template <class V> concept has_cached_body = pack_traits<V>::has_cached_body;

// Memory traffic on one thread that a cache can hold from one call to the next. Beyond this, the
// divider is as fast as memory.
inline constexpr std::size_t cached_bytes = std::size_t{32} << 20;

/// Runs a kernel over elements [i, end) with packs V: a masked head up to the pack's alignment, the
/// body by four packs, single packs, a masked tail. Elements do not depend on each other, and every
/// lane rounds like the scalar code, so the bits depend neither on the split nor on the alignment.
/// `is_cached` says that memory does not limit the body; it changes no bit either.
///
/// Inlined into the loop over tensors: a kernel that is passed in memory, written in narrow parts
/// and read in wide ones, costs 30 ns a call.
template <pack V, class Kernel>
GRADSTEP_INLINE void sweep(Kernel const& shared, std::size_t i, std::size_t end,
                           [[maybe_unused]] bool is_cached = false) {
    using io = pack_traits<V>;
    using scalar = typename io::value_type;
    constexpr std::size_t lanes = io::size, unroll = 4;
    using storage = typename Kernel::traits::storage;
    constexpr bool masked = io::template can_mask<storage>;
    // By value: through a reference, the scalars would be reloaded after every store that may alias
    // them.
    Kernel const kernel = shared;

    // Each `at` below is a copy of the whole update, which every compiler pass processes. Head and
    // tail share one copy, and the compiler unrolls the body after most of its work.
    std::size_t part = 0; // elements of a pack that are moved under a mask: the head, then the tail
    if constexpr (masked) {
        if (end - i > unroll * lanes) { // for shorter runs the head costs more than it gains
            auto const address = reinterpret_cast<std::uintptr_t>(kernel.weight + i);
            part = (0 - address) % (lanes * sizeof *kernel.weight) / sizeof *kernel.weight;
        }
    }
    using body = typename io::template body<storage>;
    for (bool is_tail = false;; is_tail = true) {
        if constexpr (masked) {
            if (part != 0) kernel.template at<V>(i, io::first(part));
            i += part;
            if (is_tail) return;
        }
        // Not `end - i >= lanes`: if g++ knows the length, it warns about the loop that a wrapped
        // difference would run.
        std::size_t const body_end = end - (end - i) % (unroll * lanes);
        if constexpr (waits_for_divider<Kernel> && has_cached_body<V>) {
            constexpr int roots = newton_roots_of<typename Kernel::rule_type>;
            using first = typename io::template cached_body<(roots > 0)>;
            using second = typename io::template cached_body<(roots > 1)>;
            static_assert(pack_traits<first>::size + pack_traits<second>::size == unroll * lanes);
            if (is_cached) io::prepare_cached_body();
            for (; is_cached && i < body_end; i += unroll * lanes) {
                if constexpr (std::is_same_v<first, second>) {
                    GRADSTEP_UNROLL
                    for (std::size_t u = 0; u < unroll * lanes; u += pack_traits<first>::size)
                        kernel.template at<first>(i + u, all_lanes{});
                } else {
                    kernel.template at<first>(i, all_lanes{});
                    kernel.template at<second>(i + pack_traits<first>::size, all_lanes{});
                }
            }
        }
        for (; i < body_end; i += unroll * lanes) {
            GRADSTEP_UNROLL
            for (std::size_t u = 0; u < unroll * lanes; u += pack_traits<body>::size)
                kernel.template at<body>(i + u, all_lanes{});
        }
        std::size_t const pack_end = end - (end - i) % lanes;
        for (; i < pack_end; i += lanes) kernel.template at<V>(i, all_lanes{});
        part = end - i;
        if (!masked || part <= 2) { // one or two are faster one by one
            for (; i < end; ++i) kernel.template at<scalar>(i, all_lanes{});
            return;
        }
    }
}

// Evaluates a lazy gradient into a block that stays in the first-level cache, and sweeps the block.
template <pack V, class Kernel>
requires(requires { Kernel::gradient_type::is_lazy; } &&
         pack_traits<V>::size > 1) void sweep(Kernel const& kernel, std::size_t i, std::size_t end,
                                              bool is_cached = false) {
    using scalar = typename pack_traits<V>::value_type;
    constexpr std::size_t block = 512;
    alignas(64) scalar staged[block];
    for (; i < end; i += block) {
        std::size_t const count = std::min(block, end - i);
        for (std::size_t k = 0; k < count; ++k) staged[k] = kernel.gradient.template load<scalar>(i + k, all_lanes{});
        sweep<V>(kernel.from(i, plain_gradient<scalar>{staged}), 0, count, is_cached);
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
