#pragma once
/// Intrinsics under one name for each register type: operations that xsimd lacks or gets wrong in
/// some version (see simd_pack.hpp).
#include <cstring>

#include <gradstep/number/detail/rounding.hpp>

/// GRADSTEP_F16C: whether this translation unit has the instructions that convert 8 float16 at
/// once.
#if defined(__F16C__)
#define GRADSTEP_F16C 1
#else
#define GRADSTEP_F16C 0
#endif

#if defined(__x86_64__)
#include <immintrin.h>

namespace gradstep::detail::x86::inline GRADSTEP_ISA {
GRADSTEP_HD __m128 min(__m128 a, __m128 b) { return _mm_min_ps(a, b); }
GRADSTEP_HD __m128d min(__m128d a, __m128d b) { return _mm_min_pd(a, b); }
GRADSTEP_HD __m128 max(__m128 a, __m128 b) { return _mm_max_ps(a, b); }
GRADSTEP_HD __m128d max(__m128d a, __m128d b) { return _mm_max_pd(a, b); }
// The two halves of a register of floats, converted to double.
GRADSTEP_HD __m128d widen_low(__m128 a) { return _mm_cvtps_pd(a); }
GRADSTEP_HD __m128d widen_high(__m128 a) { return _mm_cvtps_pd(_mm_movehl_ps(a, a)); }

#if defined(__AVX__)
GRADSTEP_HD __m256 min(__m256 a, __m256 b) { return _mm256_min_ps(a, b); }
GRADSTEP_HD __m256d min(__m256d a, __m256d b) { return _mm256_min_pd(a, b); }
GRADSTEP_HD __m256 max(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
GRADSTEP_HD __m256d max(__m256d a, __m256d b) { return _mm256_max_pd(a, b); }
GRADSTEP_HD __m256d widen_low(__m256 a) { return _mm256_cvtps_pd(_mm256_castps256_ps128(a)); }
GRADSTEP_HD __m256d widen_high(__m256 a) { return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)); }
GRADSTEP_HD __m256 not_equal(__m256 a, __m256 b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
GRADSTEP_HD __m256d not_equal(__m256d a, __m256d b) { return _mm256_cmp_pd(a, b, _CMP_NEQ_UQ); }
#endif

#if defined(__FMA__)
GRADSTEP_HD __m128 fmadd(__m128 a, __m128 b, __m128 c) { return _mm_fmadd_ps(a, b, c); }
GRADSTEP_HD __m128d fmadd(__m128d a, __m128d b, __m128d c) { return _mm_fmadd_pd(a, b, c); }
GRADSTEP_HD __m128 fnmadd(__m128 a, __m128 b, __m128 c) { return _mm_fnmadd_ps(a, b, c); }
GRADSTEP_HD __m128d fnmadd(__m128d a, __m128d b, __m128d c) { return _mm_fnmadd_pd(a, b, c); }
GRADSTEP_HD __m256 fmadd(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
GRADSTEP_HD __m256d fmadd(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
GRADSTEP_HD __m256 fnmadd(__m256 a, __m256 b, __m256 c) { return _mm256_fnmadd_ps(a, b, c); }
GRADSTEP_HD __m256d fnmadd(__m256d a, __m256d b, __m256d c) { return _mm256_fnmadd_pd(a, b, c); }
#elif defined(__AVX512F__) // g++ -mavx512f has this instruction for 512 bits and for scalars only
GRADSTEP_HD __m512 wide(__m128 x) { return _mm512_zextps128_ps512(x); }
GRADSTEP_HD __m512 wide(__m256 x) { return _mm512_zextps256_ps512(x); }
GRADSTEP_HD __m512d wide(__m128d x) { return _mm512_zextpd128_pd512(x); }
GRADSTEP_HD __m512d wide(__m256d x) { return _mm512_zextpd256_pd512(x); }
GRADSTEP_HD __m128 fmadd(__m128 a, __m128 b, __m128 c) {
    return _mm512_castps512_ps128(_mm512_fmadd_ps(wide(a), wide(b), wide(c)));
}
GRADSTEP_HD __m128 fnmadd(__m128 a, __m128 b, __m128 c) {
    return _mm512_castps512_ps128(_mm512_fnmadd_ps(wide(a), wide(b), wide(c)));
}
GRADSTEP_HD __m256 fmadd(__m256 a, __m256 b, __m256 c) {
    return _mm512_castps512_ps256(_mm512_fmadd_ps(wide(a), wide(b), wide(c)));
}
GRADSTEP_HD __m256 fnmadd(__m256 a, __m256 b, __m256 c) {
    return _mm512_castps512_ps256(_mm512_fnmadd_ps(wide(a), wide(b), wide(c)));
}
GRADSTEP_HD __m128d fmadd(__m128d a, __m128d b, __m128d c) {
    return _mm512_castpd512_pd128(_mm512_fmadd_pd(wide(a), wide(b), wide(c)));
}
GRADSTEP_HD __m128d fnmadd(__m128d a, __m128d b, __m128d c) {
    return _mm512_castpd512_pd128(_mm512_fnmadd_pd(wide(a), wide(b), wide(c)));
}
GRADSTEP_HD __m256d fmadd(__m256d a, __m256d b, __m256d c) {
    return _mm512_castpd512_pd256(_mm512_fmadd_pd(wide(a), wide(b), wide(c)));
}
GRADSTEP_HD __m256d fnmadd(__m256d a, __m256d b, __m256d c) {
    return _mm512_castpd512_pd256(_mm512_fnmadd_pd(wide(a), wide(b), wide(c)));
}
#endif

#if defined(__AVX2__)
// The lanes below `count`: as the sign bits that masked loads read, and as a number for stores.
struct first_lanes {
    __m256i mask;
    unsigned count;
};
GRADSTEP_HD first_lanes lanes_below(std::size_t count, float) {
    __m256i const lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane), static_cast<unsigned>(count)};
}
GRADSTEP_HD first_lanes lanes_below(std::size_t count, double) {
    __m256i const lane = _mm256_setr_epi64x(0, 1, 2, 3);
    return {_mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(count)), lane), static_cast<unsigned>(count)};
}
// Loads only these lanes. The others get the value of lane 0, or zero.
GRADSTEP_HD __m256 load_or_zero(float const* p, first_lanes some) { return _mm256_maskload_ps(p, some.mask); }
GRADSTEP_HD __m256d load_or_zero(double const* p, first_lanes some) { return _mm256_maskload_pd(p, some.mask); }
GRADSTEP_HD __m256 load_or_first(float const* p, first_lanes some) {
    return _mm256_blendv_ps(_mm256_broadcast_ss(p), load_or_zero(p, some), _mm256_castsi256_ps(some.mask));
}
GRADSTEP_HD __m256d load_or_first(double const* p, first_lanes some) {
    return _mm256_blendv_pd(_mm256_broadcast_sd(p), load_or_zero(p, some), _mm256_castsi256_pd(some.mask));
}
// Stores by halves: AMD's processors take some 15 cycles for a masked store. The branches are the
// same for all buffers of a tensor, and for all rows of a table.
GRADSTEP_HD void store(float* p, __m256 x, first_lanes some) {
    if (some.count == 8) return _mm256_storeu_ps(p, x);
    __m128 rest = _mm256_castps256_ps128(x);
    if ((some.count & 4) != 0) {
        _mm_storeu_ps(p, rest);
        p += 4;
        rest = _mm256_extractf128_ps(x, 1);
    }
    if ((some.count & 2) != 0) {
        _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
        p += 2;
        rest = _mm_movehl_ps(rest, rest);
    }
    if ((some.count & 1) != 0) _mm_store_ss(p, rest);
}
GRADSTEP_HD void store(double* p, __m256d x, first_lanes some) {
    if (some.count == 4) return _mm256_storeu_pd(p, x);
    __m128d rest = _mm256_castpd256_pd128(x);
    if ((some.count & 2) != 0) {
        _mm_storeu_pd(p, rest);
        p += 2;
        rest = _mm256_extractf128_pd(x, 1);
    }
    if ((some.count & 1) != 0) _mm_store_sd(p, rest);
}

// Add the result to the bits of 8 floats: the high half of each 32-bit lane is then rounded to
// nearest, ties to even (number/bfloat16.hpp). It is half a unit of bfloat16's last place, less 1
// if the last bit is 0. Ignore the low half of the sum. Not for NaN.
GRADSTEP_HD __m256i to_nearest_bfloat16(__m256i bits) {
    __m256i const last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
}
// The high half of each lane is the rounded float. A NaN keeps its bits and becomes quiet.
GRADSTEP_HD __m256i round_to_bfloat16(__m256 x) {
    __m256i const bits = _mm256_castps_si256(x), is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i const rounded = _mm256_add_epi32(bits, _mm256_andnot_si256(is_nan, to_nearest_bfloat16(bits)));
    return _mm256_or_si256(rounded, _mm256_and_si256(is_nan, _mm256_set1_epi32(0x40'0000)));
}
// Two instructions: the first gives both halves of the register all 8 numbers, the second widens
// four numbers in each half.
GRADSTEP_HD __m256 load_8(bfloat16 const* p) {
    __m256i const bits = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)));
    __m256i const spread = _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, //
                                            -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
    return _mm256_castsi256_ps(_mm256_shuffle_epi8(bits, spread));
}
GRADSTEP_HD void store_8(bfloat16* p, __m256 x) {
    __m256i const high_halves = _mm256_setr_epi8(2, 3, 6, 7, 10, 11, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1, //
                                                 2, 3, 6, 7, 10, 11, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1);
    __m256i const packed = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(round_to_bfloat16(x), high_halves), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
// pack_traits::trained, as number/pack.hpp describes it.
GRADSTEP_HD __m256 trained(bfloat16, __m256 master, __m256 stored) {
    __m256i const bits = _mm256_castps_si256(master), nearest = _mm256_add_epi32(bits, to_nearest_bfloat16(bits));
    __m256i const rounded = _mm256_and_si256(nearest, _mm256_set1_epi32(-0x1'0000));
    __m256i const is_same = _mm256_cmpeq_epi32(rounded, _mm256_castps_si256(stored));
    __m256 const is_number = _mm256_cmp_ps(master, master, _CMP_ORD_Q);
    return _mm256_blendv_ps(stored, master, _mm256_and_ps(is_number, _mm256_castsi256_ps(is_same)));
}

// The conversions of float16 ignore the flush modes: subnormals are kept, as number/float16.hpp
// documents.
#if defined(__F16C__)
GRADSTEP_HD __m256 load_8(float16 const* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)));
}
GRADSTEP_HD void store_8(float16* p, __m256 x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
GRADSTEP_HD __m256 trained(float16, __m256 master, __m256 stored) {
    __m256 const rounded = _mm256_cvtph_ps(_mm256_cvtps_ph(master, _MM_FROUND_TO_NEAREST_INT));
    __m256i const is_same = _mm256_cmpeq_epi32(_mm256_castps_si256(rounded), _mm256_castps_si256(stored));
    __m256 const is_number = _mm256_cmp_ps(master, master, _CMP_ORD_Q);
    return _mm256_blendv_ps(stored, master, _mm256_and_ps(is_number, _mm256_castsi256_ps(is_same)));
}
#endif

// number/detail/rounding.hpp on 8 lanes, whose counts follow each other from `begin`. Each key goes
// through the shift that follows it in advance, since both operations are linear: AVX-512 can then
// do both exclusive ors in one instruction.
GRADSTEP_HD __m256i words_8(element_words const& of, std::uint64_t i) {
    using words = element_words;
    auto const all = [](std::uint32_t value)
                         GRADSTEP_INLINE_LAMBDA { return _mm256_set1_epi32(static_cast<int>(value)); };
    auto const mixed = [](__m256i v, int shift)
                           GRADSTEP_INLINE_LAMBDA { return _mm256_xor_si256(v, _mm256_srli_epi32(v, shift)); };
    __m256i const lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i r = _mm256_add_epi32(all(of.begin(i)), lane);
    if (!of.contiguous(i, 8)) [[unlikely]] { // lanes that wrapped around count on beyond 2^32
        __m256i const low = _mm256_add_epi32(all(static_cast<std::uint32_t>(of.first + i)), lane);
        __m256i const stays = _mm256_cmpeq_epi32(_mm256_max_epu32(low, lane), low);
        r = _mm256_add_epi32(r, _mm256_andnot_si256(stays, all(words::carry)));
    }
    r = _mm256_mullo_epi32(mixed(r, 17), all(words::multiplier1));
    r = _mm256_mullo_epi32(_mm256_xor_si256(mixed(r, 11), all(of.key[1] ^ of.key[1] >> 11)), all(words::multiplier2));
    r = _mm256_mullo_epi32(_mm256_xor_si256(mixed(r, 15), all(of.key[2] ^ of.key[2] >> 15)), all(words::multiplier3));
    return mixed(r, 14);
}
GRADSTEP_HD __m256 drop_bits(__m256 x, std::uint32_t dropped, element_words const& of, std::uint64_t i) {
    __m256i const mask = _mm256_set1_epi32(static_cast<int>((1u << dropped) - 1));
    __m256i const sum = _mm256_add_epi32(_mm256_castps_si256(x), _mm256_and_si256(words_8(of, i), mask));
    return _mm256_castsi256_ps(_mm256_andnot_si256(mask, sum));
}
GRADSTEP_HD __m256 signed_words(__m256, element_words const& of, std::uint64_t i) {
    return _mm256_cvtepi32_ps(words_8(of, i));
}
#endif

#if GRADSTEP_AVX512
GRADSTEP_HD __m512 fmadd(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
GRADSTEP_HD __m512d fmadd(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
GRADSTEP_HD __m512 fnmadd(__m512 a, __m512 b, __m512 c) { return _mm512_fnmadd_ps(a, b, c); }
GRADSTEP_HD __m512d fnmadd(__m512d a, __m512d b, __m512d c) { return _mm512_fnmadd_pd(a, b, c); }

GRADSTEP_HD __m512 min(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }
GRADSTEP_HD __m512d min(__m512d a, __m512d b) { return _mm512_min_pd(a, b); }
GRADSTEP_HD __m512 max(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
GRADSTEP_HD __m512d max(__m512d a, __m512d b) { return _mm512_max_pd(a, b); }
GRADSTEP_HD __mmask16 not_equal(__m512 a, __m512 b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
GRADSTEP_HD __mmask8 not_equal(__m512d a, __m512d b) { return _mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ); }

GRADSTEP_HD __m512d widen_low(__m512 a) { return _mm512_cvtps_pd(_mm512_castps512_ps256(a)); }
GRADSTEP_HD __m512d widen_high(__m512 a) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1)); }

GRADSTEP_HD __m512 load_or_zero(float const* p, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, p); }
GRADSTEP_HD __m512d load_or_zero(double const* p, __mmask16 lanes) {
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>(lanes), p);
}
GRADSTEP_HD __m512 load_or_first(float const* p, __mmask16 lanes) {
    return _mm512_mask_loadu_ps(_mm512_set1_ps(*p), lanes, p);
}
GRADSTEP_HD __m512d load_or_first(double const* p, __mmask16 lanes) {
    return _mm512_mask_loadu_pd(_mm512_set1_pd(*p), static_cast<__mmask8>(lanes), p);
}
// 16 numbers of 16 bits each, in the same way.
GRADSTEP_HD __m256i words_or_zero(void const* p, __mmask16 lanes) { return _mm256_maskz_loadu_epi16(lanes, p); }
GRADSTEP_HD __m256i words_or_first(void const* p, __mmask16 lanes) {
    std::int16_t first;
    std::memcpy(&first, p, sizeof first);
    return _mm256_mask_loadu_epi16(_mm256_set1_epi16(first), lanes, p);
}
GRADSTEP_HD void store(float* p, __m512 x, __mmask16 lanes) { _mm512_mask_storeu_ps(p, lanes, x); }
GRADSTEP_HD void store(double* p, __m512d x, __mmask16 lanes) {
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>(lanes), x);
}

// Indices for 16-bit permutations. Word 2k + 1 of the result is word first + k; and word k is word
// 2k of two registers.
GRADSTEP_HD __m512i spread_words(int first) {
    __m512i const k = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_slli_epi32(_mm512_add_epi32(k, _mm512_set1_epi32(first)), 16);
}
GRADSTEP_HD __m512i even_words() {
    __m512i const pair = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); // words 4k, 4k + 2
    return _mm512_add_epi32(_mm512_mullo_epi32(pair, _mm512_set1_epi32(0x00040004)), _mm512_set1_epi32(0x00020000));
}
// Like to_nearest_bfloat16 of 8 floats.
GRADSTEP_HD __m512i to_nearest_bfloat16(__m512i bits) {
    __m512i const last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff));
}
// The result is in the low half of every 32-bit lane.
GRADSTEP_HD __m512i round_to_bfloat16(__m512 x) {
    __m512i const bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    __m512i const nearest = _mm512_srli_epi32(_mm512_add_epi32(bits, to_nearest_bfloat16(bits)), 16);
    __mmask16 const is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(nearest, is_nan, high, _mm512_set1_epi32(0x40));
}
GRADSTEP_HD __m512 trained(bfloat16, __m512 master, __m512 stored) {
    __m512i const bits = _mm512_castps_si512(master), nearest = _mm512_add_epi32(bits, to_nearest_bfloat16(bits));
    __m512i const rounded = _mm512_and_si512(nearest, _mm512_set1_epi32(-0x1'0000));
    __mmask16 const is_same = _mm512_cmpeq_epi32_mask(rounded, _mm512_castps_si512(stored));
    return _mm512_mask_mov_ps(stored, _mm512_mask_cmp_ps_mask(is_same, master, master, _CMP_ORD_Q), master);
}
GRADSTEP_HD __m512 widen_bfloat16(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
GRADSTEP_HD __m512 load_16(bfloat16 const* p) {
    return widen_bfloat16(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p)));
}
GRADSTEP_HD void store_16(bfloat16* p, __m512 x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(round_to_bfloat16(x)));
}
GRADSTEP_HD __m512 load_16(float16 const* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p)));
}
GRADSTEP_HD __m256i round_to_float16(__m512 x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
GRADSTEP_HD void store_16(float16* p, __m512 x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_to_float16(x));
}
GRADSTEP_HD __m512 trained(float16, __m512 master, __m512 stored) {
    __m512i const rounded = _mm512_castps_si512(_mm512_cvtph_ps(round_to_float16(master)));
    __mmask16 const is_same = _mm512_cmpeq_epi32_mask(rounded, _mm512_castps_si512(stored));
    return _mm512_mask_mov_ps(stored, _mm512_mask_cmp_ps_mask(is_same, master, master, _CMP_ORD_Q), master);
}
GRADSTEP_HD __m512 load_or_zero(float16 const* p, __mmask16 lanes) { return _mm512_cvtph_ps(words_or_zero(p, lanes)); }
GRADSTEP_HD __m512 load_or_first(float16 const* p, __mmask16 lanes) {
    return _mm512_cvtph_ps(words_or_first(p, lanes));
}
GRADSTEP_HD void store(float16* p, __m512 x, __mmask16 lanes) {
    _mm256_mask_storeu_epi16(p, lanes, round_to_float16(x));
}
// number/detail/rounding.hpp on 16 lanes, whose counts follow each other from `begin`.
GRADSTEP_HD __m512i words_16(element_words const& of, std::uint64_t i) {
    using words = element_words;
    auto const all = [](std::uint32_t value)
                         GRADSTEP_INLINE_LAMBDA { return _mm512_set1_epi32(static_cast<int>(value)); };
    auto const mixed = [](__m512i v, unsigned shift)
                           GRADSTEP_INLINE_LAMBDA { return _mm512_xor_si512(v, _mm512_srli_epi32(v, shift)); };
    __m512i const lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i r = _mm512_add_epi32(all(of.begin(i)), lane);
    if (!of.contiguous(i, 16)) [[unlikely]] { // lanes that wrapped around count on beyond 2^32
        __m512i const low = _mm512_add_epi32(all(static_cast<std::uint32_t>(of.first + i)), lane);
        r = _mm512_mask_add_epi32(r, _mm512_cmplt_epu32_mask(low, lane), r, all(words::carry));
    }
    r = _mm512_mullo_epi32(mixed(r, 17), all(words::multiplier1));
    r = _mm512_mullo_epi32(_mm512_xor_si512(mixed(r, 11), all(of.key[1] ^ of.key[1] >> 11)), all(words::multiplier2));
    r = _mm512_mullo_epi32(_mm512_xor_si512(mixed(r, 15), all(of.key[2] ^ of.key[2] >> 15)), all(words::multiplier3));
    return mixed(r, 14);
}
GRADSTEP_HD __m512 drop_bits(__m512 x, std::uint32_t dropped, element_words const& of, std::uint64_t i) {
    __m512i const mask = _mm512_set1_epi32(static_cast<int>((1u << dropped) - 1));
    __m512i const sum = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_and_si512(words_16(of, i), mask));
    return _mm512_castsi512_ps(_mm512_andnot_si512(mask, sum));
}
GRADSTEP_HD __m512 signed_words(__m512, element_words const& of, std::uint64_t i) {
    return _mm512_cvtepi32_ps(words_16(of, i));
}
// 32 bfloat16 at once: one permutation for each half widens, one for both narrows.
GRADSTEP_HD void load_32(bfloat16 const* p, __m512& low, __m512& high) {
    __m512i const bits = _mm512_loadu_si512(p), to_low = spread_words(0), to_high = spread_words(16);
    constexpr __mmask32 odd = 0xaaaaaaaa; // a 16-bit number is the upper half of its float
    low = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(odd, to_low, bits));
    high = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(odd, to_high, bits));
}
GRADSTEP_HD void store_32(bfloat16* p, __m512 low, __m512 high) {
    _mm512_storeu_si512(p, _mm512_permutex2var_epi16(round_to_bfloat16(low), even_words(), round_to_bfloat16(high)));
}
GRADSTEP_HD __m512 load_or_zero(bfloat16 const* p, __mmask16 lanes) { return widen_bfloat16(words_or_zero(p, lanes)); }
GRADSTEP_HD __m512 load_or_first(bfloat16 const* p, __mmask16 lanes) {
    return widen_bfloat16(words_or_first(p, lanes));
}
GRADSTEP_HD void store(bfloat16* p, __m512 x, __mmask16 lanes) {
    _mm256_mask_storeu_epi16(p, lanes, _mm512_cvtepi32_epi16(round_to_bfloat16(x)));
}
#endif
} // namespace gradstep::detail::x86::inline GRADSTEP_ISA

#endif
