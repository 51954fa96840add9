#pragma once
/// What memory allows: kernels that read and write the same streams as a rule and do next to
/// nothing else (one maximum a stream), with the vectors of this instruction set, four a turn. A
/// rule cannot be faster than these for long.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#if defined(__GNUC__) && !defined(__clang__) // see hand_written.hpp
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace limit {

#if defined(__AVX512F__)
using pack = __m512;
inline pack load(float const* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, pack x) { _mm512_storeu_ps(p, x); }
inline void stream(float* p, pack x) { _mm512_stream_ps(p, x); }
inline pack larger(pack a, pack b) { return _mm512_max_ps(a, b); }
#else
using pack = __m256;
inline pack load(float const* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, pack x) { _mm256_storeu_ps(p, x); }
inline void stream(float* p, pack x) { _mm256_stream_ps(p, x); }
inline pack larger(pack a, pack b) { return _mm256_max_ps(a, b); }
#endif
inline constexpr std::size_t lanes = sizeof(pack) / sizeof(float); // n is a multiple of four times this in what follows

/// The streams of a rule: w read and written, g read, every state slot read and written; 12, 20, 28
/// bytes an element for 0, 1, 2 slots.
template <class... Slot>
__attribute__((noinline)) void same_mix(std::size_t n, float* w, float const* g, Slot*... slot) {
    [[maybe_unused]] auto const raise = [floor = pack{}](float* p) { store(p, larger(load(p), floor)); };
    for (std::size_t i = 0; i < n; i += 4 * lanes)
        for (std::size_t k = i; k < i + 4 * lanes; k += lanes) {
            store(w + k, larger(load(w + k), load(g + k)));
            (raise(slot + k), ...);
        }
}

/// A read of g alone.
__attribute__((noinline)) inline void read(std::size_t n, float const* g) {
    pack largest[4] = {};
    for (std::size_t i = 0; i < n; i += 4 * lanes)
        for (std::size_t k = 0; k < 4; ++k) largest[k] = larger(largest[k], load(g + i + k * lanes));
    asm volatile("" : : "x"(largest[0]), "x"(largest[1]), "x"(largest[2]), "x"(largest[3]));
}

/// The streams of a rule, g written too, and half as many bytes as w has written to `copy` around
/// the caches; it starts on a cache line.
template <class... Slot>
__attribute__((noinline)) void tail_mix(std::size_t n, float* w, float* g, float* copy, Slot*... slot) {
    auto const raise = [floor = pack{}](float* p) { store(p, larger(load(p), floor)); };
    for (std::size_t i = 0; i < n; i += 4 * lanes)
        for (std::size_t k = i; k < i + 4 * lanes; k += 2 * lanes) {
            for (std::size_t j = k; j < k + 2 * lanes; j += lanes) {
                store(w + j, larger(load(w + j), load(g + j)));
                store(g + j, pack{});
                (raise(slot + j), ...);
            }
            stream(copy + k / 2, load(w + k));
        }
    _mm_sfence();
}

/// The mix of a rule for the rows of a table. All lines of the row 16 ids ahead are prefetched, for
/// reading and into the second level: on an Intel Xeon with 480 MB of L3, a prefetch for writing
/// made rows of 64 floats take 1.6 times as long. The width is a multiple of the lanes.
template <class... Slot>
__attribute__((noinline)) void rows_mix(std::size_t count, std::int64_t const* ids, std::size_t width, float* w,
                                        float const* g, Slot*... slot) {
    constexpr std::size_t ahead = 16, line = 64 / sizeof(float);
    [[maybe_unused]] auto const raise = [floor = pack{}](float* p) { store(p, larger(load(p), floor)); };
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t const next = static_cast<std::size_t>(ids[i + ahead < count ? i + ahead : i]) * width,
                          row = static_cast<std::size_t>(ids[i]) * width;
        for (std::size_t k = next; k < next + width; k += line)
            (__builtin_prefetch(w + k, 0, 2), ..., __builtin_prefetch(slot + k, 0, 2));
        for (std::size_t k = 0; k < width; k += lanes) {
            store(w + row + k, larger(load(w + row + k), load(g + i * width + k)));
            (raise(slot + row + k), ...);
        }
    }
}

/// The sums of `bag` rows of a table each. The width is a multiple of the lanes, at most 64 floats.
__attribute__((noinline)) inline void sum_rows(std::size_t count, std::int64_t const* ids, std::size_t bag,
                                               std::size_t width, float const* w, float* to) {
    constexpr std::size_t ahead = 16, line = 64 / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t const next = static_cast<std::size_t>(ids[i + ahead < count ? i + ahead : i]) * width,
                          row = static_cast<std::size_t>(ids[i]) * width;
        for (std::size_t k = next; k < next + width; k += line) __builtin_prefetch(w + k, 0, 2);
        float* const sum = to + i / bag * width;
        for (std::size_t k = 0; k < width; k += lanes)
            store(sum + k, i % bag == 0 ? load(w + row + k) : load(sum + k) + load(w + row + k));
    }
}

/// A plain copy, 8 bytes read or written for each float: the yardstick of GB/s.
__attribute__((noinline)) inline void copy(std::size_t n, float* to, float const* from) {
    for (std::size_t i = 0; i < n; i += 4 * lanes)
        for (std::size_t k = i; k < i + 4 * lanes; k += lanes) store(to + k, load(from + k));
}

} // namespace limit

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
