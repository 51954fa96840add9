#pragma once
/// Blocks of state in 8 bits (number/coded_block.hpp) by AVX2 and AVX-512 instructions. They give
/// the same codes and numbers as `scalar_codes`, bit for bit. The parts are computed in 16-bit
/// words: a register holds twice as many of them as floats.
#include <gradstep/backends/detail/x86.hpp>
#include <gradstep/number/coded_block.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The encoder and decoder for packs of this many floats.
template <std::size_t Lanes> struct codes_for { using type = scalar_codes; };

#if defined(__AVX2__) && GRADSTEP_FMA
struct codes_of_avx2 {
    template <code_map> static extreme_bits extremes_of(float const* x) {
        __m256i largest = _mm256_setzero_si256(), all = largest;
        for (std::size_t i = 0; i < coded_block::length; i += 8) {
            __m256i const bits = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x + i));
            largest = _mm256_max_epi32(largest, bits);
            all = _mm256_max_epu32(all, bits);
        }
        return {highest(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1),
                        [](__m128i a, __m128i b) GRADSTEP_INLINE_LAMBDA { return _mm_max_epi32(a, b); }),
                static_cast<std::uint32_t>(highest(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1),
                                                   [](__m128i a, __m128i b)
                                                       GRADSTEP_INLINE_LAMBDA { return _mm_max_epu32(a, b); }))};
    }

    template <code_map map> static void decode(std::uint8_t const* codes, float scale, float* to) {
        using parts = parts_of<map>;
        constexpr auto& numbers = numbers_of<map>;
        __m256 const gains = _mm256_load_ps(numbers.gain), shifts = _mm256_load_ps(numbers.shift),
                     sign = _mm256_set1_ps(-0.0f);
        for (std::size_t k = 0; k < codes_at_once; k += 8) {
            __m256i const code = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(codes + k)));
            __m256 const number =
                _mm256_cvtepi32_ps(_mm256_add_epi32(code, _mm256_set1_epi32(parts::offset - parts::zero_code)));
            __m256 const h = _mm256_andnot_ps(sign, number);
            __m256 const decade = _mm256_max_ps(h, _mm256_set1_ps(parts::has_sign ? 1 : 2));
            // The permutation reads three bits of it.
            __m256i const exponent = _mm256_srli_epi32(_mm256_castps_si256(decade), 23);
            __m256 const exact =
                x86::fmadd(h, _mm256_permutevar8x32_ps(gains, exponent), _mm256_permutevar8x32_ps(shifts, exponent));
            __m256 x = _mm256_and_ps(exact, _mm256_castsi256_ps(_mm256_set1_epi32(~0xff)));
            if constexpr (parts::has_sign) x = _mm256_or_ps(x, _mm256_and_ps(sign, number));
            else x = _mm256_max_ps(x, _mm256_setzero_ps());
            _mm256_storeu_ps(to + k, _mm256_mul_ps(x, _mm256_set1_ps(scale)));
        }
    }

    template <code_map map> static void encode(float const* x, float inverse, std::uint8_t* codes) {
        for (std::size_t k = 0; k < codes_at_once; k += 32) {
            __m256i const shares[4] = {shares_of<map>(x + k, inverse), shares_of<map>(x + k + 8, inverse),
                                       shares_of<map>(x + k + 16, inverse), shares_of<map>(x + k + 24, inverse)};
            __m256i code = _mm256_packus_epi16(_mm256_srli_epi16(parts_in<map>(shares[0], shares[1]), 8),
                                               _mm256_srli_epi16(parts_in<map>(shares[2], shares[3]), 8));
            if constexpr (map == code_map::both_signs) {
                __m256i const zero = _mm256_set1_epi8(127),
                              negative = _mm256_packs_epi16(_mm256_packs_epi32(shares[0], shares[1]),
                                                            _mm256_packs_epi32(shares[2], shares[3]));
                code = _mm256_blendv_epi8(_mm256_adds_epu8(zero, code), _mm256_subs_epu8(zero, code), negative);
            }
            __m256i const order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + k), _mm256_permutevar8x32_epi32(code, order));
        }
    }

private:
    template <class F> GRADSTEP_INLINE static std::int32_t highest(__m128i a, __m128i b, F const& max) {
        a = max(a, b);
        a = max(a, _mm_shuffle_epi32(a, 0x4e));
        return _mm_cvtsi128_si32(max(a, _mm_shuffle_epi32(a, 0xb1)));
    }
    // Returns the shares of 8 elements, as bits.
    template <code_map map> GRADSTEP_INLINE static __m256i shares_of(float const* x, float inverse) {
        __m256 const y = _mm256_loadu_ps(x), by = _mm256_set1_ps(inverse);
        if constexpr (map == code_map::both_signs) return _mm256_castps_si256(_mm256_mul_ps(y, by));
        __m256 const least =
            _mm256_mul_ps(_mm256_min_ps(y, _mm256_set1_ps(smallest_element)), _mm256_set1_ps(to_least_share));
        return _mm256_castps_si256(x86::fmadd(y, by, least));
    }
    // A table of words, split into lower and upper bytes. One instruction looks up 16 bytes, and
    // gives 0 where the index is negative.
    struct word_table {
        alignas(16) std::uint8_t low[32], high[32];
        constexpr explicit word_table(std::uint16_t const (&words)[32]) : low(), high() {
            for (std::size_t e = 0; e < 32; ++e) {
                low[e] = static_cast<std::uint8_t>(words[e] & 0xff);
                high[e] = static_cast<std::uint8_t>(words[e] >> 8);
            }
        }
    };
    template <code_map map> struct word_tables {
        word_table slope{lines_of<map>.slope}, start{lines_of<map>.start}, bend{lines_of<map>.bend};
    };
    template <code_map map> static constexpr word_tables<map> tables_of{};

    // Returns the parts that contain 16 shares, in units, in the order in which the pack
    // instruction leaves them (each half separately).
    template <code_map map> GRADSTEP_INLINE static __m256i parts_in(__m256i low, __m256i high) {
        constexpr auto& tables = tables_of<map>;
        __m256i const word = _mm256_set1_epi32(0xffff);
        __m256i const f = _mm256_packus_epi32(_mm256_and_si256(_mm256_srli_epi32(low, 7), word),
                                              _mm256_and_si256(_mm256_srli_epi32(high, 7), word));
        __m256i upper = _mm256_packus_epi32(_mm256_srli_epi32(low, 16), _mm256_srli_epi32(high, 16));
        if constexpr (map == code_map::both_signs) upper = _mm256_and_si256(upper, _mm256_set1_epi16(0x7fff));
        upper = _mm256_subs_epu16(upper, _mm256_set1_epi16(128 << 7));
        // Five bits of the exponent, in both bytes. Exponents below 16 index the first half of a
        // table and are out of range in the second half; exponents from 16 on are the reverse.
        __m256i const e = _mm256_and_si256(_mm256_srli_epi16(upper, 7), _mm256_set1_epi16(31)),
                      both = _mm256_or_si256(e, _mm256_slli_epi16(e, 8));
        __m256i const first = _mm256_adds_epu8(both, _mm256_set1_epi8(0x70)),
                      second = _mm256_sub_epi8(both, _mm256_set1_epi8(16));
        auto const look_up = [&](word_table const& table) GRADSTEP_INLINE_LAMBDA {
            auto const byte = [&](std::uint8_t const* p) GRADSTEP_INLINE_LAMBDA {
                auto const half = [](std::uint8_t const* from) GRADSTEP_INLINE_LAMBDA {
                    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<__m128i const*>(from)));
                };
                return _mm256_or_si256(_mm256_shuffle_epi8(half(p), first), _mm256_shuffle_epi8(half(p + 16), second));
            };
            return _mm256_blendv_epi8(byte(table.high), byte(table.low), _mm256_set1_epi16(0xff));
        };
        __m256i const steep = _mm256_add_epi16(_mm256_mulhi_epu16(f, look_up(tables.slope)), look_up(tables.start)),
                      bend = look_up(tables.bend), above = _mm256_subs_epu16(steep, bend),
                      is_behind = _mm256_cmpeq_epi16(_mm256_and_si256(steep, _mm256_set1_epi16(-256)), bend);
        __m256i const part = _mm256_sub_epi16(
            steep, _mm256_mulhi_epu16(above, _mm256_set1_epi16(static_cast<short>(code_lines<map>::four_fifths))));
        return _mm256_add_epi16(part, _mm256_slli_epi16(is_behind, 8)); // minus one unit
    }
};
template <> struct codes_for<8> { using type = codes_of_avx2; };
#endif

#if GRADSTEP_AVX512
struct codes_of_avx512 {
    template <code_map map> GRADSTEP_INLINE static extreme_bits extremes_of(float const* x) {
        __m512i largest[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()}, all[2] = {largest[0], largest[0]};
        for (std::size_t i = 0; i < coded_block::length; i += 32)
            for (std::size_t k = 0; k < 2; ++k) {
                __m512i const bits = _mm512_loadu_si512(x + i + 16 * k);
                if (map == code_map::both_signs) largest[k] = _mm512_max_epi32(largest[k], bits);
                all[k] = _mm512_max_epu32(all[k], bits);
            }
        std::uint32_t const of_all = _mm512_reduce_max_epu32(_mm512_max_epu32(all[0], all[1]));
        if (map == code_map::one_sign) return {static_cast<std::int32_t>(of_all), of_all};
        return {_mm512_reduce_max_epi32(_mm512_max_epi32(largest[0], largest[1])), of_all};
    }

    template <code_map map> GRADSTEP_INLINE static void decode(std::uint8_t const* codes, float scale, float* to) {
        constexpr auto& numbers = numbers_of<map>;
        __m512 const factor = _mm512_set1_ps(scale);
#if defined(__AVX512VBMI__)
        // Loads in an order in which each quarter of a register can join bytes to words, and words
        // to floats, by itself.
        __m512i const order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        __m512i const code = _mm512_permutexvar_epi32(order, _mm512_loadu_si512(codes));
        __mmask64 const from_128 = _mm512_movepi8_mask(code);
        auto const look_up = [&](std::uint8_t const(&table)[256]) GRADSTEP_INLINE_LAMBDA {
            auto const half = [code](std::uint8_t const* p) GRADSTEP_INLINE_LAMBDA {
                return _mm512_permutex2var_epi8(_mm512_load_si512(p), code, _mm512_load_si512(p + 64));
            };
            return _mm512_mask_mov_epi8(half(table), from_128, half(table + 128));
        };
        __m512i const zero = _mm512_setzero_si512(), second = look_up(numbers.byte[0]),
                      third = look_up(numbers.byte[1]), fourth = look_up(numbers.byte[2]);
        __m512i const words[4] = {_mm512_unpacklo_epi8(zero, second), _mm512_unpackhi_epi8(zero, second),
                                  _mm512_unpacklo_epi8(third, fourth), _mm512_unpackhi_epi8(third, fourth)};
        auto const store = [&](std::size_t k, __m512i x) GRADSTEP_INLINE_LAMBDA {
            _mm512_storeu_ps(to + k, _mm512_mul_ps(_mm512_castsi512_ps(x), factor));
        };
        store(0, _mm512_unpacklo_epi16(words[0], words[2]));
        store(16, _mm512_unpackhi_epi16(words[0], words[2]));
        store(32, _mm512_unpacklo_epi16(words[1], words[3]));
        store(48, _mm512_unpackhi_epi16(words[1], words[3]));
#else
        using parts = parts_of<map>;
        __m512 const gains = _mm512_load_ps(numbers.gain), shifts = _mm512_load_ps(numbers.shift);
        for (std::size_t k = 0; k < codes_at_once; k += 16) {
            __m512i const code = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(codes + k)));
            __m512 const number =
                _mm512_cvtepi32_ps(_mm512_add_epi32(code, _mm512_set1_epi32(parts::offset - parts::zero_code)));
            __m512 const h = _mm512_abs_ps(number);
            __m512 const decade = _mm512_max_ps(h, _mm512_set1_ps(parts::has_sign ? 1 : 2));
            // The permutation reads four bits of it.
            __m512i const exponent = _mm512_srli_epi32(_mm512_castps_si512(decade), 23);
            __m512i const exact = _mm512_castps_si512(
                _mm512_fmadd_ps(h, _mm512_permutexvar_ps(exponent, gains), _mm512_permutexvar_ps(exponent, shifts)));
            __m512 x;
            if constexpr (parts::has_sign) // truncated, with the sign of the number
                x = _mm512_castsi512_ps(_mm512_or_si512(
                    _mm512_and_si512(exact, _mm512_set1_epi32(0x7fffff00)),
                    _mm512_and_si512(_mm512_castps_si512(number), _mm512_set1_epi32(static_cast<int>(0x80000000)))));
            else
                x = _mm512_max_ps(_mm512_castsi512_ps(_mm512_and_si512(exact, _mm512_set1_epi32(~0xff))),
                                  _mm512_setzero_ps());
            _mm512_storeu_ps(to + k, _mm512_mul_ps(x, factor));
        }
#endif
    }

    template <code_map map> GRADSTEP_INLINE static void encode(float const* x, float inverse, std::uint8_t* codes) {
        __m512i const shares[4] = {shares_of<map>(x, inverse), shares_of<map>(x + 16, inverse),
                                   shares_of<map>(x + 32, inverse), shares_of<map>(x + 48, inverse)};
        __m512i const low = upper_words(shares[0], shares[1]), high = upper_words(shares[2], shares[3]);
        __m512i code = upper_bytes(
            parts_in<map>(low, upper_words(_mm512_slli_epi32(shares[0], 9), _mm512_slli_epi32(shares[1], 9))),
            parts_in<map>(high, upper_words(_mm512_slli_epi32(shares[2], 9), _mm512_slli_epi32(shares[3], 9))));
        if constexpr (map == code_map::both_signs) {
            __m512i const zero = _mm512_set1_epi8(127);
            __mmask64 const negative = _mm512_kunpackd(_mm512_movepi16_mask(high), _mm512_movepi16_mask(low));
            code = _mm512_mask_subs_epu8(_mm512_adds_epu8(zero, code), negative, zero, code);
        }
        _mm512_storeu_si512(codes, code);
    }

private:
    // Returns the shares of 16 elements, as bits.
    template <code_map map> GRADSTEP_INLINE static __m512i shares_of(float const* x, float inverse) {
        __m512 const y = _mm512_loadu_ps(x), by = _mm512_set1_ps(inverse);
        if constexpr (map == code_map::both_signs) return _mm512_castps_si512(_mm512_mul_ps(y, by));
        __m512 const least =
            _mm512_mul_ps(_mm512_min_ps(y, _mm512_set1_ps(smallest_element)), _mm512_set1_ps(to_least_share));
        return _mm512_castps_si512(_mm512_fmadd_ps(y, by, least));
    }
    GRADSTEP_INLINE static __m512i upper_words(__m512i a, __m512i b) {
        __m512i const pair =
            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); // words 4k + 1, 4k + 3
        __m512i const odd =
            _mm512_add_epi32(_mm512_mullo_epi32(pair, _mm512_set1_epi32(0x00040004)), _mm512_set1_epi32(0x00030001));
        return _mm512_permutex2var_epi16(a, odd, b);
    }
    // Returns the parts that contain 32 shares, in units, from their upper words and fractions.
    template <code_map map> GRADSTEP_INLINE static __m512i parts_in(__m512i upper, __m512i f) {
        constexpr auto& lines = lines_of<map>;
        if constexpr (map == code_map::both_signs) upper = _mm512_and_si512(upper, _mm512_set1_epi16(0x7fff));
        upper = _mm512_subs_epu16(upper, _mm512_set1_epi16(128 << 7));
        __m512i const e = _mm512_srli_epi16(upper, 7); // the permutation reads five bits of it
        auto const look_up = [e](std::uint16_t const(&table)[32]) GRADSTEP_INLINE_LAMBDA {
            return _mm512_permutexvar_epi16(e, _mm512_load_si512(table));
        };
        __m512i const steep = _mm512_add_epi16(_mm512_mulhi_epu16(f, look_up(lines.slope)), look_up(lines.start)),
                      bend = look_up(lines.bend), above = _mm512_subs_epu16(steep, bend),
                      unit = _mm512_set1_epi16(code_lines<map>::unit);
        __m512i const part = _mm512_sub_epi16(
            steep, _mm512_mulhi_epu16(above, _mm512_set1_epi16(static_cast<short>(code_lines<map>::four_fifths))));
        __mmask32 const is_behind = _mm512_cmpeq_epi16_mask(_mm512_and_si512(steep, _mm512_set1_epi16(-256)), bend);
        return _mm512_mask_sub_epi16(part, is_behind, part, unit);
    }
    GRADSTEP_INLINE static __m512i upper_bytes(__m512i low, __m512i high) {
#if defined(__AVX512VBMI__)
        __m512i const pair =
            _mm512_set_epi64(0x0e0c0a0806040200, 0x0e0c0a0806040200, 0x0e0c0a0806040200, 0x0e0c0a0806040200,
                             0x0e0c0a0806040200, 0x0e0c0a0806040200, 0x0e0c0a0806040200, 0x0e0c0a0806040200);
        __m512i const eighth =
            _mm512_set_epi64(0x7171717171717171, 0x6161616161616161, 0x5151515151515151, 0x4141414141414141,
                             0x3131313131313131, 0x2121212121212121, 0x1111111111111111, 0x0101010101010101);
        return _mm512_permutex2var_epi8(low, _mm512_add_epi8(pair, eighth), high);
#else
        __m512i const order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7); // packus packs each quarter by itself
        return _mm512_permutexvar_epi64(order,
                                        _mm512_packus_epi16(_mm512_srli_epi16(low, 8), _mm512_srli_epi16(high, 8)));
#endif
    }
};
template <> struct codes_for<16> { using type = codes_of_avx512; };
#endif
} // namespace gradstep::detail::inline GRADSTEP_ISA
