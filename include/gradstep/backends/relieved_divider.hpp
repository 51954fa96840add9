#pragma once
/// Quotients and roots of floats on AVX-512 that leave the divider to others: estimates of 14 bits, made exact by multiply-adds.
/// Correctly rounded, so that they have the divider's bits.
///
/// Why they are. Let a and b be in [1, 2); other exponents scale every step, as long as nothing leaves the range of normal
/// numbers, and that is what `quotients` and `root` look at. A subnormal b that is not flushed behaves likewise: it only has fewer bits, and
/// its inverse and quotients are normal, or infinite and then NaN on the way. An a of 0 stays the zero it is (`quotient`). u = 2^-24.
///
/// The reciprocal. The estimate is y0 = (1 - t) / b with |t| <= 2^-14, as Intel and AMD promise; their tables differ, and nothing more
/// is taken from them. The residue e = 1 - b * y0 is t rounded up, e' = e + e^2 rounded up, and y = y0 + y0 * e' to nearest:
/// before its last rounding y is off by less than 2^-36 of 1/b. So y is the float nearest to 1/b, or the one on the other side where
/// 1/b is within 2^-36 of the midpoint of two.
///
/// The quotient. With q = a * y rounded, the remainder r = a - b * q, and a / b = q + r / b, the result is q + r * y rounded
/// once. What is rounded is off by (r / b) * (b * y - 1), and by half a unit of r where r needs a 25th bit. |r / b| is at
/// most 1.5 + 2^-12 units in the last place (ulp) of the quotient, and |b * y - 1| at most u * b / 2 + 2^-36, in all less than
/// 6 / (2 B) ulp where b = B * 2^-23.
/// A quotient A / B of integers of 24 bits is |c| / (2 B) ulp from the midpoint M of two floats, where A * 2^k = B * M + c with k = 24 or 25,
/// and c is not 0, since M is odd. So it is rounded to the right side if |c| >= 6. For the 35 million quotients with |c| <= 6 a test
/// computes every result that both possible y lead to. 24 of them need the greater y, all of them b near 2, and for each of
/// these a test goes through every y0 within 2^-14 of 1/b: it always comes, because both residues are rounded up.
/// (To nearest, as in Markstein 1990, 24 of them could be wrong for some y0, as 1 / (2 - 2^-23) then is.)
///
/// A negative a mirrors every step but the rounding of a remainder of 25 bits, and none of the 35 million has one: |r / b| would
/// have to be within 3 / B of 1.5 ulp, and is at most 1 + 2^-12 ulp where a >= b, else (1 + a) / 2 + 2^-12. That leaves
/// a = 2 - i * 2^-23 and b = 2 - j * 2^-23, j < i <= 2^12 + 3, whose quotient is (i - j) * j / B ulp below a float; near a midpoint
/// (i - j) * j would be B / 2 to within 3, about 2^23, and it is at most i^2 / 4, about 2^22.
///
/// The root, of a in [1, 4). The estimate is y0 = (1 + t) / sqrt(a), |t| <= 2^-14. g = a * y0 and h = y0 / 2 have the common
/// residue s = 1/2 - g * h; g + g * s is within 1.2 ulp of the root, h + h * s within 2^-23.3 of its inverse's half. Before its last
/// rounding g + h * (a - g^2) is off by less than 1.2 * 2^-23.3 ulp by this h, 1.2^2 / 2 * 2^-23 by the square of what g is off, and
/// 1.2 * 2^-24 by the remainder, which has up to 26 bits and is rounded: in all by less than 2^-21.8 ulp. a * 2^48 = M^2 + c puts the
/// root |c| / (4 M) ulp from the midpoint M, which is more where |c| >= 48: 48 / (4 * 2^25) = 2^-21.4. As M^2 is 1 modulo 8, c is one of
/// -1, 7, -9, 15, ...: those with |c| < 48 are 20 arguments, and a test goes through every y0 for them.
///
/// Multiply-adds here ignore the caller's rounding mode; what is left to the divider follows it. No exception is raised that the divider
/// would not raise.

#include <gradstep/core/instruction_set.hpp>

#if GRADSTEP_AVX512
#include <atomic>

#include <cpuid.h>
#include <immintrin.h>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail::x86 {
inline namespace GRADSTEP_ISA {

/// What multiply-adds take from the divider in a loop that waits for it. Which pays differs (docs/performance.md); no bit does.
enum class relief {
    not_looked_up, ///< nothing yet
    none,
    quotients, ///< all quotients
    roots,     ///< some roots: of four, as many as the rule says (`relieved_roots`)
};
/// That of this processor, once it was looked up. Not before a kernel runs: what is compiled for AVX-512 must do nothing on processors
/// without. Tests and benchmarks set it.
inline constinit std::atomic<relief> relief_here = relief::not_looked_up;

/// What pays on a processor, by the first word of its maker's name and its `version`, both of cpuid. Roots on AMD's family 25, which is
/// Zen 4. Quotients were measured on Intel's Emerald Rapids (model 0xcf): adam's loop, by hand, takes 0.63 of its time so. Sapphire
/// Rapids (0x8f) has the same core and Granite Rapids (0xad) the next, with the same two units for multiply-adds of 512 bits. On others
/// nothing, until it is measured.
constexpr relief relief_of(unsigned maker, unsigned version) {
    unsigned const family = (version >> 8 & 0xf) + (version >> 20 & 0xff),
                   model = (version >> 4 & 0xf) + (version >> 12 & 0xf0);
    if (maker == signature_AMD_ebx && family == 25) return relief::roots;
    bool const is_alike = model == 0x8f || model == 0xcf || model == 0xad;
    return maker == signature_INTEL_ebx && family == 6 && is_alike ? relief::quotients : relief::none;
}
[[gnu::noinline, gnu::cold]] inline relief relief_of_processor() {
    unsigned maker = 0, version = 0, rest[3] = {};
    bool const is_told = __get_cpuid(0, &rest[0], &maker, &rest[1], &rest[2]) != 0 &&
                         __get_cpuid(1, &version, &rest[0], &rest[1], &rest[2]) != 0;
    return is_told ? relief_of(maker, version) : relief::none;
}
/// Looks it up where nobody has.
GRADSTEP_INLINE void look_up_relief() {
    if (relief_here.load(std::memory_order_relaxed) == relief::not_looked_up) [[unlikely]]
        relief_here.store(relief_of_processor(), std::memory_order_relaxed);
}
GRADSTEP_HD bool takes(relief what) { return relief_here.load(std::memory_order_relaxed) == what; }

inline constexpr int to_nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC,
                     upwards = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC,
                     downwards = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
// The bits of 2^exponent.
constexpr int power_of_two(int exponent) { return (127 + exponent) << 23; }

/// 1 / b, given an estimate.
GRADSTEP_HD __m512 reciprocal(__m512 b, __m512 estimate) {
    __m512 const e = _mm512_fnmadd_round_ps(b, estimate, _mm512_set1_ps(1), upwards);
    return _mm512_fmadd_round_ps(_mm512_fmadd_round_ps(e, e, e, upwards), estimate, estimate, to_nearest);
}
/// a / b, given 1 / b. The remainder has 25 bits at most; rounded downwards one of 0 is negative, so that the quotient of a zero a and a
/// positive b keeps the sign of a.
GRADSTEP_HD __m512 quotient(__m512 a, __m512 b, __m512 inverse) {
    __m512 const q = _mm512_mul_round_ps(a, inverse, to_nearest);
    return _mm512_fmadd_round_ps(_mm512_fnmadd_round_ps(b, q, a, downwards), inverse, q, to_nearest);
}
/// The root of a, given an estimate of its inverse.
GRADSTEP_HD __m512 root(__m512 a, __m512 estimate) {
    __m512 g = _mm512_mul_round_ps(a, estimate, to_nearest);
    // Half of it by its exponent: the units for multiply-adds have enough to do.
    __m512 h = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(estimate), _mm512_set1_epi32(1 << 23)));
    __m512 const s = _mm512_fnmadd_round_ps(g, h, _mm512_set1_ps(0.5f), to_nearest);
    g = _mm512_fmadd_round_ps(g, s, g, to_nearest);
    h = _mm512_fmadd_round_ps(h, s, h, to_nearest);
    return _mm512_fmadd_round_ps(_mm512_fnmadd_round_ps(g, g, a, to_nearest), h, g, to_nearest);
}

/// a / b of two packs. The divider takes both where one quotient is NaN on the way, as what is infinite or overflows nearly always is (one
/// that overflows by its last rounding alone is infinite without a flag), |a| is below 2^-78 and not 0, or b is negative or from 2^46
/// on (so that no quotient is subnormal).
GRADSTEP_HD void quotients(__m512 a0, __m512 b0, __m512 a1, __m512 b1, __m512& q0, __m512& q1) {
    q0 = quotient(a0, b0, reciprocal(b0, _mm512_rcp14_ps(b0)));
    q1 = quotient(a1, b1, reciprocal(b1, _mm512_rcp14_ps(b1)));
    // Compared as integers. Twice the bits of a are its magnitude; less one, that of 0 is the largest.
    auto const magnitude = [](__m512 a) GRADSTEP_INLINE_LAMBDA {
        __m512i const bits = _mm512_castps_si512(a);
        return _mm512_add_epi32(_mm512_add_epi32(bits, bits), _mm512_set1_epi32(-1));
    };
    __m512i const a = _mm512_min_epu32(magnitude(a0), magnitude(a1)),
                  b = _mm512_max_epu32(_mm512_castps_si512(b0), _mm512_castps_si512(b1));
    __m512 const sum = _mm512_add_round_ps(q0, q1, to_nearest); // NaN if one of them is
    constexpr int smallest = power_of_two(-78);                 // below, remainders would be lost
    __mmask16 fine = _mm512_cmplt_epu32_mask(b, _mm512_set1_epi32(power_of_two(46)));
    fine = _mm512_mask_cmpge_epu32_mask(fine, a, _mm512_set1_epi32(2 * smallest - 1));
    fine = _mm512_mask_cmp_round_ps_mask(fine, sum, sum, _CMP_ORD_Q, _MM_FROUND_NO_EXC);
    if (_kortestc_mask16_u8(fine, fine) == 0) [[unlikely]] {
        q0 = _mm512_div_ps(a0, b0);
        q1 = _mm512_div_ps(a1, b1);
    }
}

/// The root of a. The divider takes it where a is negative, infinite or NaN, or below 2^-95 and not 0. From there on nothing but the last
/// remainder can be subnormal, and where it is flushed, below 2^-126, it is less than 2^-8 ulp of the root, of which nothing is left anyway.
GRADSTEP_HD __m512 root(__m512 a) {
    constexpr int small = power_of_two(-95), sign = static_cast<int>(0x80000000);
    // Of 0 it is 0 times any finite estimate, as that of the small number.
    __m512i const bits = _mm512_castps_si512(a), at_least = _mm512_max_epu32(bits, _mm512_set1_epi32(small));
    __m512 const g = root(a, _mm512_rsqrt14_ps(_mm512_castsi512_ps(at_least)));
    // One test of all bits that tell: comparisons go to the units for multiply-adds, on Zen 4. `small` has one bit, so what was added is 0, or `small`
    // for a zero, or has lower bits; and adding 2^23 carries what is not finite into the sign.
    static_assert((small & (small - 1)) == 0);
    __m512i const added = _mm512_sub_epi32(at_least, bits),
                  not_finite = _mm512_or_si512(bits, _mm512_add_epi32(bits, _mm512_set1_epi32(1 << 23)));
    __m512i const tell = _mm512_ternarylogic_epi32(_mm512_set1_epi32(sign), not_finite, added, 0xca);
    __mmask16 const hard = _mm512_test_epi32_mask(tell, _mm512_set1_epi32(sign | (small - 1)));
    if (_kortestz_mask16_u8(hard, hard) == 0) [[unlikely]]
        return _mm512_sqrt_ps(a);
    return g;
}

} // namespace GRADSTEP_ISA
} // namespace detail::x86
} // namespace gradstep
#endif
