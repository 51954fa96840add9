#pragma once
#include <gradstep/kernel/detail/block_kernel.hpp>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace gradstep::detail::inline GRADSTEP_ISA {
// Rounds floats to bfloat16.
struct rounding_kernel {
    using traits = element_traits<bfloat16>;
    using gradient_type = void;

    float const* from;
    bfloat16* weight; // sweep() aligns by it

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        pack_traits<V>::store(weight + i, pack_traits<V>::load(from + i, which), which);
    }
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(from) && detail::is_aligned<N>(weight);
    }
};

// The number of elements that are updated before they are rounded: they stay in the first-level
// cache.
inline constexpr std::size_t copied_chunk = 1024;

// The end of the chunk that begins at element i: on a cache line of `to`. So each chunk except the
// first begins on a line, from where it can be streamed, and no two chunks write the same line. If
// the parameter is aligned differently, each chunk is updated with a masked head and tail.
inline std::size_t end_of_chunk(bfloat16 const* to, std::size_t i, std::size_t end) {
    constexpr std::size_t line = 64;
    auto const address = reinterpret_cast<std::uintptr_t>(to + i);
    return std::min(end, i + copied_chunk - address % line / sizeof(bfloat16));
}

// Rounds n <= copied_chunk elements. Out of line: all updates share it. With `streams` the result
// bypasses the caches, which then need not read the lines that are written; other threads see it
// after `end_stream`.
template <pack V>
[[gnu::noinline]] void round_chunk(float const* from, bfloat16* to, std::size_t n, [[maybe_unused]] bool streams) {
#if defined(__SSE2__)
    constexpr std::size_t unit = sizeof(__m128i) / sizeof(bfloat16);
    // Without the zeros that bfloat16 starts with.
    alignas(64) std::byte memory[copied_chunk * sizeof(bfloat16)];
    auto* const staged = reinterpret_cast<bfloat16*>(memory);
    streams = streams && is_aligned<unit>(to);
    sweep<V>(rounding_kernel{from, streams ? staged : to}, 0, n);
    if (!streams) return;
    std::size_t i = 0;
    for (; i + unit <= n; i += unit)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm_load_si128(reinterpret_cast<__m128i const*>(staged + i)));
    for (; i < n; ++i) to[i] = staged[i];
#else
    sweep<V>(rounding_kernel{from, to}, 0, n);
#endif
}
inline void end_stream() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

// An update of floats that also writes the new values, rounded to bfloat16, to other memory.
template <class Update> struct copying_kernel {
    using traits = typename Update::traits;
    using gradient_type = typename Update::gradient_type;

    Update update;
    rounding_kernel copy; // from the parameter; no copy if it is null
    std::size_t elements;

    template <pack V, class Which>
    GRADSTEP_HD void at(std::size_t i, Which which) const
        requires(requires(Update const& u) { u.template at<V>(i, which); }) {
        update.template at<V>(i, which);
        if (copy.weight != nullptr) copy.template at<V>(i, which);
    }
    template <std::size_t N> bool is_aligned() const {
        return update.template is_aligned<N>() && copy.template is_aligned<N>();
    }
};

// Sweeps the update in chunks and rounds each chunk while it is in the first-level cache. A loop
// over both would compile the whole update again for each rule, and is no faster.
template <pack V, class Update>
GRADSTEP_INLINE void sweep(copying_kernel<Update> const& shared, std::size_t i, std::size_t end,
                           bool is_cached = false) {
    copying_kernel<Update> const kernel = shared;
    bool const copies = kernel.copy.weight != nullptr;
    // Whole blocks that begin here: others may not have been updated yet.
    if constexpr (is_block_kernel<Update>) {
        i = coded_block::count(i) * coded_block::length;
        end = std::min(kernel.elements, coded_block::count(end) * coded_block::length);
    }
    while (i < end) {
        std::size_t const next = copies ? end_of_chunk(kernel.copy.weight, i, end) : end;
        sweep<V>(kernel.update, i, next, is_cached);
        if (copies) round_chunk<V>(kernel.copy.from + i, kernel.copy.weight + i, next - i, !is_cached);
        i = next;
    }
    if (copies && !is_cached) end_stream();
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
