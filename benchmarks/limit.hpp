#pragma once
/// What memory allows: kernels that read and write the same streams as a rule and do next to nothing else (one maximum
/// a stream), with the vectors of this instruction set, four a turn. A rule cannot be faster than these for long.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__GNUC__) && !defined(__clang__) // see hand_written.hpp
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace limit {

#if defined(__AVX512BW__)
using bits = __m512i;
inline bits load(void const* p) { return _mm512_loadu_si512(p); }
inline void store(void* p, bits x) { _mm512_storeu_si512(p, x); }
inline bits larger(bits a, bits b, float) {
    return _mm512_castps_si512(_mm512_max_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}
inline bits larger(bits a, bits b, std::uint16_t) { return _mm512_max_epi16(a, b); }
#else
using bits = __m256i;
inline bits load(void const* p) { return _mm256_loadu_si256(static_cast<bits const*>(p)); }
inline void store(void* p, bits x) { _mm256_storeu_si256(static_cast<bits*>(p), x); }
inline bits larger(bits a, bits b, float) {
    return _mm256_castps_si256(_mm256_max_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
}
inline bits larger(bits a, bits b, std::uint16_t) { return _mm256_max_epi16(a, b); }
#endif

/// n is a multiple of this in all that follows.
inline constexpr std::size_t granule = 4 * sizeof(bits) / sizeof(std::uint16_t);

/// The streams of a rule: w read and written, g read, every float state slot read and written. Storage is float
/// (12, 20, 28 bytes an element for 0, 1, 2 slots) or uint16_t for 16-bit elements (6, 14, 22).
template <class Storage, class... Slot>
__attribute__((noinline)) void same_mix(std::size_t n, Storage* w, Storage const* g, Slot*... slot) {
    static_assert((std::is_same_v<Slot, float> && ...));
    constexpr std::size_t lanes = sizeof(bits) / sizeof(Storage), slot_lanes = sizeof(bits) / sizeof(float);
    [[maybe_unused]] auto const raise = [floor = bits{}](float* p) {
        for (std::size_t k = 0; k < lanes; k += slot_lanes) store(p + k, larger(load(p + k), floor, 0.0f));
    };
    for (std::size_t i = 0; i < n; i += 4 * lanes)
        for (std::size_t k = i; k < i + 4 * lanes; k += lanes) {
            store(w + k, larger(load(w + k), load(g + k), Storage{}));
            (raise(slot + k), ...);
        }
}

/// A plain copy, 8 bytes read or written for each float: the yardstick of GB/s.
__attribute__((noinline)) inline void copy(std::size_t n, float* to, float const* from) {
    constexpr std::size_t lanes = sizeof(bits) / sizeof(float);
    for (std::size_t i = 0; i < n; i += 4 * lanes)
        for (std::size_t k = i; k < i + 4 * lanes; k += lanes) store(to + k, load(from + k));
}

} // namespace limit

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
