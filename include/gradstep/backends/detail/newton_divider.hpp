#pragma once
/// Quotients and roots of floats on AVX-512 by multiply-adds instead of the divider: estimates of
/// 14 bits that multiply-adds make exact. They are correctly rounded, so they have the divider's
/// bits. The proof is in docs/explanation/numerics_proofs.md.
///
/// These multiply-adds ignore the caller's rounding mode; operands that go to the divider follow
/// it. They raise no exception that the divider would not raise.

#include <gradstep/base/instruction_set.hpp>

#if GRADSTEP_AVX512
#include <atomic>
#include <cstdlib>

#include <cpuid.h>
#include <immintrin.h>

#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::x86::inline GRADSTEP_ISA {
/// Which divisions a divider-bound loop computes by multiply-adds. The best choice depends on the
/// processor (docs/explanation/performance_model.md); no bit depends on it.
enum class newton_mode {
    not_looked_up, ///< not initialised yet
    none,
    quotients, ///< all quotients
    roots,     ///< some roots: of four, the number that the rule names (`newton_roots`)
};
/// The choice for this processor. It is initialised on first use, and not before a kernel runs:
/// code compiled for AVX-512 must do nothing on processors without it. Tests and benchmarks set it.
inline constinit std::atomic<newton_mode> newton_mode_here = newton_mode::not_looked_up;

/// The best choice for a processor, given the first word of its vendor name and its `version`, both
/// from cpuid. Roots on AMD's family 25, which is Zen 4. Quotients were measured on Intel's Emerald
/// Rapids (model 0xcf): adam's loop takes 0.63 of the time. Sapphire Rapids (0x8f) has the same
/// core and Granite Rapids (0xad) the next one, with the same two units for 512-bit multiply-adds.
/// All others: none, until measured.
constexpr newton_mode newton_mode_of(unsigned maker, unsigned version) {
    unsigned const family = (version >> 8 & 0xf) + (version >> 20 & 0xff),
                   model = (version >> 4 & 0xf) + (version >> 12 & 0xf0);
    if (maker == signature_AMD_ebx && family == 25) return newton_mode::roots;
    bool const is_alike = model == 0x8f || model == 0xcf || model == 0xad;
    return maker == signature_INTEL_ebx && family == 6 && is_alike ? newton_mode::quotients : newton_mode::none;
}
GRADSTEP_HD bool takes(newton_mode what) { return newton_mode_here.load(std::memory_order_relaxed) == what; }

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
/// a / b, given 1 / b. The remainder has at most 25 bits. A remainder of 0 is rounded downwards to
/// -0, so that the quotient of a zero a and a positive b keeps the sign of a.
GRADSTEP_HD __m512 quotient(__m512 a, __m512 b, __m512 inverse) {
    __m512 const q = _mm512_mul_round_ps(a, inverse, to_nearest);
    return _mm512_fmadd_round_ps(_mm512_fnmadd_round_ps(b, q, a, downwards), inverse, q, to_nearest);
}
/// The root of a, given an estimate of its inverse.
GRADSTEP_HD __m512 root(__m512 a, __m512 estimate) {
    __m512 g = _mm512_mul_round_ps(a, estimate, to_nearest);
    // Halves it by its exponent: the units for multiply-adds are busy.
    __m512 h = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(estimate), _mm512_set1_epi32(1 << 23)));
    __m512 const s = _mm512_fnmadd_round_ps(g, h, _mm512_set1_ps(0.5f), to_nearest);
    g = _mm512_fmadd_round_ps(g, s, g, to_nearest);
    h = _mm512_fmadd_round_ps(h, s, h, to_nearest);
    return _mm512_fmadd_round_ps(_mm512_fnmadd_round_ps(g, g, a, to_nearest), h, g, to_nearest);
}

/// a / b of two packs. The divider computes both packs if one quotient is NaN on the way (as nearly
/// always when a value is infinite or overflows; a quotient that overflows by its last rounding
/// alone is infinite without a flag), if |a| is below 2^-78 and not 0, or if b is negative or at
/// least 2^46 (so that no quotient is subnormal).
GRADSTEP_HD void quotients(__m512 a0, __m512 b0, __m512 a1, __m512 b1, __m512& q0, __m512& q1) {
    q0 = quotient(a0, b0, reciprocal(b0, _mm512_rcp14_ps(b0)));
    q1 = quotient(a1, b1, reciprocal(b1, _mm512_rcp14_ps(b1)));
    // Compares as integers. Twice the bits of a are its magnitude; minus one, the magnitude of 0 is
    // the largest.
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

/// The root of a. The divider computes it if a is negative, infinite or NaN, or below 2^-95 and
/// not 0. Above that, only the last remainder can be subnormal. If it is flushed (below 2^-126), it
/// is less than 2^-8 ulp of the root, and has no effect on the result.
GRADSTEP_HD __m512 root(__m512 a) {
    constexpr int small = power_of_two(-95), sign = static_cast<int>(0x80000000);
    // The root of 0 is 0 times any finite estimate, such as the estimate of the small number.
    __m512i const bits = _mm512_castps_si512(a), at_least = _mm512_max_epu32(bits, _mm512_set1_epi32(small));
    __m512 const g = root(a, _mm512_rsqrt14_ps(_mm512_castsi512_ps(at_least)));
    // One test of all relevant bits: on Zen 4, comparisons occupy the units for multiply-adds.
    // `small` has one bit set, so the added value is 0, or `small` for a zero, or it has lower
    // bits. Adding 2^23 carries infinity and NaN into the sign.
    static_assert((small & (small - 1)) == 0);
    __m512i const added = _mm512_sub_epi32(at_least, bits),
                  not_finite = _mm512_or_si512(bits, _mm512_add_epi32(bits, _mm512_set1_epi32(1 << 23)));
    __m512i const tell = _mm512_ternarylogic_epi32(_mm512_set1_epi32(sign), not_finite, added, 0xca);
    __mmask16 const hard = _mm512_test_epi32_mask(tell, _mm512_set1_epi32(sign | (small - 1)));
    if (_kortestz_mask16_u8(hard, hard) == 0) [[unlikely]]
        return _mm512_sqrt_ps(a);
    return g;
}

/// The arrays of adam's loop: 8 KiB.
struct tried_arrays {
    static constexpr int size = 512;
    alignas(64) float w[size], g[size], m[size], v[size];
};
/// The numerator and the root of adam's step of one pack, by hand.
GRADSTEP_HD __m512 tried_root(tried_arrays& x, int i, bool by_newton, __m512& m) {
    __m512 const beta = _mm512_set1_ps(0.9f), rest = _mm512_set1_ps(0.1f), g = _mm512_load_ps(x.g + i);
    m = _mm512_fmadd_ps(beta, _mm512_load_ps(x.m + i), _mm512_mul_ps(rest, g));
    __m512 const v = _mm512_fmadd_ps(beta, _mm512_load_ps(x.v + i), _mm512_mul_ps(rest, _mm512_mul_ps(g, g)));
    _mm512_store_ps(x.m + i, m);
    _mm512_store_ps(x.v + i, v);
    return _mm512_add_ps(by_newton ? root(v) : _mm512_sqrt_ps(v), _mm512_set1_ps(1e-8f));
}
GRADSTEP_HD void tried_change(tried_arrays& x, int i, __m512 q) {
    _mm512_store_ps(x.w + i, _mm512_fnmadd_ps(_mm512_set1_ps(1e-3f), q, _mm512_load_ps(x.w + i)));
}
/// Adam's step of two packs, with the roots and quotients of this mode.
template <newton_mode Mode> GRADSTEP_HD void tried_step(tried_arrays& x, int i, bool takes_a_root) {
    __m512 m0, m1, q0, q1;
    __m512 const b0 = tried_root(x, i, Mode == newton_mode::roots && takes_a_root, m0),
                 b1 = tried_root(x, i + 16, false, m1);
    if constexpr (Mode == newton_mode::quotients) {
        quotients(m0, b0, m1, b1, q0, q1);
    } else {
        q0 = _mm512_div_ps(m0, b0);
        q1 = _mm512_div_ps(m1, b1);
    }
    tried_change(x, i, q0);
    tried_change(x, i + 16, q1);
}
/// The ticks of 16 steps in this mode.
template <newton_mode Mode> [[gnu::noinline]] unsigned long long ticks_of(tried_arrays& x) {
    unsigned long long const begin = __rdtsc();
    for (int step = 0; step < 16; ++step)
        for (int i = 0; i < tried_arrays::size; i += 64) {
            tried_step<Mode>(x, i, true);
            tried_step<Mode>(x, i + 32, false);
        }
    return __rdtsc() - begin;
}
/// The mode that takes the fewest ticks; another than none has to save 5 %.
constexpr newton_mode fastest_of(unsigned long long none, unsigned long long quotients, unsigned long long roots) {
    if (20 * (quotients < roots ? quotients : roots) > 19 * none) return newton_mode::none;
    return quotients < roots ? newton_mode::quotients : newton_mode::roots;
}
/// The mode whose adam loop is fastest here: about a millisecond of work.
[[gnu::noinline, gnu::cold]] inline newton_mode measured_newton_mode() {
    tried_arrays x;
    for (int i = 0; i < tried_arrays::size; ++i) x.w[i] = x.g[i] = x.m[i] = x.v[i] = static_cast<float>(i + 1);
    unsigned long long none = ~0ull, quotients = none, roots = none; // the shortest of many
    auto const keep = [](unsigned long long& shortest, unsigned long long ticks) {
        shortest = ticks < shortest ? ticks : shortest;
    };
    for (int round = 0; round < 50; ++round) {
        keep(none, ticks_of<newton_mode::none>(x));
        keep(quotients, ticks_of<newton_mode::quotients>(x));
        keep(roots, ticks_of<newton_mode::roots>(x));
    }
    return fastest_of(none, quotients, roots);
}

/// The choice for this processor: measured if the environment variable GRADSTEP_TUNE is 1.
[[gnu::noinline, gnu::cold]] inline newton_mode newton_mode_of_processor() {
    char const* const tune = std::getenv("GRADSTEP_TUNE");
    if (tune != nullptr && tune[0] == '1' && tune[1] == 0) return measured_newton_mode();
    unsigned maker = 0, version = 0, rest[3] = {};
    bool const is_told = __get_cpuid(0, &rest[0], &maker, &rest[1], &rest[2]) != 0 &&
                         __get_cpuid(1, &version, &rest[0], &rest[1], &rest[2]) != 0;
    return is_told ? newton_mode_of(maker, version) : newton_mode::none;
}
/// Initialises newton_mode_here on first use.
GRADSTEP_INLINE void look_up_newton_mode() {
    if (newton_mode_here.load(std::memory_order_relaxed) == newton_mode::not_looked_up) [[unlikely]]
        newton_mode_here.store(newton_mode_of_processor(), std::memory_order_relaxed);
}
} // namespace gradstep::detail::x86::inline GRADSTEP_ISA

#endif
