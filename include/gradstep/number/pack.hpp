#pragma once
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <gradstep/base/compiler.hpp>
#include <gradstep/number/bfloat16.hpp>
#include <gradstep/number/float16.hpp>

#if defined(__SSE2__)
#include <emmintrin.h> // a square root that does not set errno
#endif

namespace gradstep::inline GRADSTEP_ISA {
/// The operations that a kernel needs from a pack V. A pack is a value that represents one or
/// several elements in the compute type. Specialised for float, double and integers (one element),
/// `lanes<T, N>` (portable, CUDA) and `simd<T, Arch>` (xsimd).
///
///     value_type, size                    the element type and the number of elements
///     load(S const* p, which), store(...) convert S -> value_type and back; the only place where
///                                         storage is converted
///     fma fnma mul div sqrt               correctly rounded: the same bits in every pack
///     abs copysign multiply_sign min max select
///                                         exact
///     pow                                 lane by lane by the standard library, with its bits
///     cbrt_estimate                       the cube root of a normal number > 0, off by less than 4 %,
///                                         for math::cbrt (number/cube_root.hpp)
///     drop_bits                           number/detail/rounding.hpp; packs of float only
///     signed_word(words, i)               the random words of the elements from i on, as signed
///                                         32-bit numbers, rounded to nearest (kernel/detail/normal.hpp)
///     significand, exponent               m in [1, 2) and e with a = m * 2^e, for normal a > 0
///     trained<S>(master, stored)          the weight from which a step continues: `master`, a copy
///                                         with more digits, if it is not NaN and rounds to the
///                                         bits in memory of type S, which were loaded as `stored`;
///                                         otherwise `stored`
///     codes                               encoder and decoder of blocks of state
///                                         (number/coded_block.hpp); packs of float only
///     wide, to_wide(a)                    a pack of as many doubles, and the conversion to it;
///                                         wide of integers is V
///     all(mask)                           for loops over packs
///     can_mask<S>, first(count)           for the ends of a loop: whether masks work, and the mask
///                                         of the first `count` > 0 lanes
///     first_or_zero(count)                the same; a load puts zeros into the other lanes
///     body<S>                             the best pack for a loop over memory of type S
///     has_cached_body, cached_body<roots>, prepare_cached_body()
///                                         optional: the best pack if the divider limits the loop
///     short_pack                          optional: the best pack for rows that fit into it
template <class V> struct pack_traits;

/// All lanes of a pack take part in a load or store (the body of a loop).
struct all_lanes {};
/// Only the lanes in the register's mask take part (the ends of a loop). Idle lanes contain the
/// value of lane 0. They compute the same as lane 0, so they raise no additional floating-point
/// exception.
template <class Mask> struct some_lanes { Mask mask; };
template <class Mask> some_lanes(Mask) -> some_lanes<Mask>;
/// Only the lanes in the mask take part, and a load puts zeros into the other lanes, for sums.
template <class Mask> struct some_lanes_or_zero { Mask mask; };
template <class Mask> some_lanes_or_zero(Mask) -> some_lanes_or_zero<Mask>;

/// A value that rules compute with: arithmetic, comparison to a mask, and the functions of `math`.
template <class V> concept pack = requires(V a, typename pack_traits<V>::value_type x) {
    {V(x)};
    { a + a } -> std::same_as<V>;
    { a - a } -> std::same_as<V>;
    { a* a } -> std::same_as<V>;
    { pack_traits<V>::fma(a, a, a) } -> std::same_as<V>;
    { pack_traits<V>::select(a < a, a, a) } -> std::same_as<V>;
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
struct element_words; // number/detail/rounding.hpp
struct scalar_codes;  // number/coded_block.hpp
GRADSTEP_HD float drop_bits(float x, std::uint32_t dropped, element_words const& words, std::uint64_t i);
GRADSTEP_HD std::int32_t signed_word(element_words const& words, std::uint64_t i);

template <class S> inline constexpr bool is_half = std::is_same_v<S, bfloat16> || std::is_same_v<S, float16>;

// Compares bits: zeros of different sign differ, also if subnormals are flushed.
GRADSTEP_HD std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
GRADSTEP_HD std::uint64_t bits_of(double x) { return __builtin_bit_cast(std::uint64_t, x); }

// The content of memory as a number: a user's type as double if it converts to double; other types
// without arithmetic as float.
template <class S> GRADSTEP_HD auto widen(S x) {
    if constexpr (std::is_arithmetic_v<S>) return x;
    else if constexpr (is_half<S> || !std::is_constructible_v<double, S>) return static_cast<float>(x);
    else return static_cast<double>(x);
}

/// One integer. Arithmetic wraps around.
template <class T> struct integer_pack_traits {
    using value_type = T;
    static constexpr std::size_t size = 1;

    GRADSTEP_HD static T load(T const* p, all_lanes) { return *p; }
    GRADSTEP_HD static void store(T* p, T x, all_lanes) { *p = x; }
    template <class S> static constexpr bool can_mask = false;
    template <class S> using body = T;
    using wide = T;

    GRADSTEP_HD static T fma(T a, T b, T c) {
        using U = std::make_unsigned_t<T>;
        return T(U(a) * U(b) + U(c));
    }
    GRADSTEP_HD static T mul(T a, T b) { return fma(a, b, 0); }
    GRADSTEP_HD static T select(bool mask, T a, T b) { return mask ? a : b; }
    template <class S> GRADSTEP_HD static T trained(T master, T stored) {
        return T(S(master)) == stored ? master : stored;
    }
};

/// One element. Without an FMA instruction it multiplies and adds, like the vector body.
template <class T> struct scalar_pack_traits {
    using value_type = T;
    static constexpr std::size_t size = 1;

    template <class S> GRADSTEP_HD static T load(S const* p, all_lanes) { return T(widen(*p)); }
    template <class S> GRADSTEP_HD static void store(S* p, T x, all_lanes) { *p = S(x); }
    template <class S> GRADSTEP_HD static T trained(T master, T stored) {
        return master == master && bits_of(T(widen(S(master)))) == bits_of(stored) ? master : stored;
    }

    template <class S> static constexpr bool can_mask = false;
    template <class S> using body = T;

    using wide = double;
    GRADSTEP_HD static double to_wide(T a) { return a; }
    GRADSTEP_HD static T abs(T a) {
        if constexpr (std::is_same_v<T, float>) return __builtin_fabsf(a);
        else return __builtin_fabs(a);
    }
    GRADSTEP_HD static T copysign(T magnitude, T sign) {
        if constexpr (std::is_same_v<T, float>) return __builtin_copysignf(magnitude, sign);
        else return __builtin_copysign(magnitude, sign);
    }
    GRADSTEP_HD static T multiply_sign(T a, T sign) { return copysign(T(1), sign) * a; }
    GRADSTEP_HD static T min(T a, T b) { return b < a ? b : a; }
    GRADSTEP_HD static T max(T a, T b) { return a < b ? b : a; }
    GRADSTEP_HD static T select(bool mask, T a, T b) { return mask ? a : b; }
    GRADSTEP_HD static bool all(bool mask) { return mask; }
    GRADSTEP_HD static T drop_bits(T x, std::uint32_t dropped, element_words const& words, std::uint64_t i) {
        return detail::drop_bits(x, dropped, words, i);
    }
    GRADSTEP_HD static T signed_word(element_words const& words, std::uint64_t i) {
        return T(detail::signed_word(words, i));
    }
    GRADSTEP_HD static T significand(T a) {
        if constexpr (std::is_same_v<T, float>) return __builtin_bit_cast(T, (bits_of(a) & 0x7fffff) | 0x3f800000);
        else return __builtin_bit_cast(T, (bits_of(a) & 0xfffff'ffffffff) | 0x3ff00000'00000000);
    }
    // The biased exponent becomes the last digits of 2^23, or of 2^52.
    GRADSTEP_HD static T exponent(T a) {
        if constexpr (std::is_same_v<T, float>)
            return __builtin_bit_cast(T, bits_of(a) >> 23 | 0x4b000000) - T(0x1p23f + 127);
        else return __builtin_bit_cast(T, bits_of(a) >> 52 | 0x43300000'00000000) - T(0x1p52 + 1023);
    }
    using codes = scalar_codes;
    GRADSTEP_HD static T pow(T a, T b) {
        if constexpr (std::is_same_v<T, float>) return ::powf(a, b);
        else return ::pow(a, b);
    }
    // A third of the bits: of their upper half, which has the exponent. 21845 / 2^16 is a third.
    GRADSTEP_HD static T cbrt_estimate(T a) {
        if constexpr (std::is_same_v<T, float>)
            return __builtin_bit_cast(T, ((bits_of(a) >> 15) * 21845 >> 1) + 0x2a513000);
        else return __builtin_bit_cast(T, ((bits_of(a) >> 47) * 21845 << 31) + 0x2a9fa100'00000000);
    }

#if defined(__CUDA_ARCH__)
    // The intrinsics with a rounding mode: neither contraction nor --use_fast_math changes their
    // bits.
    GRADSTEP_HD static float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
    GRADSTEP_HD static double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
    GRADSTEP_HD static T fnma(T a, T b, T c) { return fma(-a, b, c); }
    GRADSTEP_HD static float mul(float a, float b) { return __fmul_rn(a, b); }
    GRADSTEP_HD static double mul(double a, double b) { return __dmul_rn(a, b); }
    GRADSTEP_HD static float div(float a, float b) { return __fdiv_rn(a, b); }
    GRADSTEP_HD static double div(double a, double b) { return __ddiv_rn(a, b); }
    GRADSTEP_HD static float sqrt(float a) { return __fsqrt_rn(a); }
    GRADSTEP_HD static double sqrt(double a) { return __dsqrt_rn(a); }
#else
    GRADSTEP_HD static T fma(T a, T b, T c) {
#if GRADSTEP_FMA
        if constexpr (std::is_same_v<T, float>) return __builtin_fmaf(a, b, c);
        else return __builtin_fma(a, b, c);
#else
        return a * b + c;
#endif
    }
    GRADSTEP_HD static T fnma(T a, T b, T c) { return fma(-a, b, c); }
    GRADSTEP_HD static T mul(T a, T b) { return fma(a, b, T(-0.0)); }
    GRADSTEP_HD static T div(T a, T b) { return a / b; }
    GRADSTEP_HD static T sqrt(T a) {
#if defined(__SSE2__)
        if constexpr (std::is_same_v<T, float>) return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(a)));
        else return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(a)));
#elif defined(__aarch64__)
        T root;
        if constexpr (std::is_same_v<T, float>) asm("fsqrt %s0, %s1" : "=w"(root) : "w"(a));
        else asm("fsqrt %d0, %d1" : "=w"(root) : "w"(a));
        return root;
#else
        if constexpr (std::is_same_v<T, float>) return __builtin_sqrtf(a);
        else return __builtin_sqrt(a);
#endif
    }
#endif
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
template <> struct pack_traits<float> : detail::scalar_pack_traits<float> {};
template <> struct pack_traits<double> : detail::scalar_pack_traits<double> {};
template <> struct pack_traits<std::int32_t> : detail::integer_pack_traits<std::int32_t> {};
template <> struct pack_traits<std::int64_t> : detail::integer_pack_traits<std::int64_t> {};
} // namespace gradstep::inline GRADSTEP_ISA

/// The functions that rules are written with. Multiply-adds are explicit, so that compilers with
/// different contraction rules give the same bits: pass a product of the operator * only to one of
/// these functions, never to a sum.
namespace gradstep::inline GRADSTEP_ISA::math {
/// a * b + c, rounded once.
template <class V> GRADSTEP_HD V fma(V a, V b, V c) { return pack_traits<V>::fma(a, b, c); }
/// c - a * b, rounded once.
template <class V> GRADSTEP_HD V fnma(V a, V b, V c) { return pack_traits<V>::fnma(a, b, c); }
/// a * b, always rounded. Use it for a product that a function returns, because the caller can add
/// to it.
template <class V> GRADSTEP_HD V mul(V a, V b) { return pack_traits<V>::mul(a, b); }
/// a / b, correctly rounded.
template <class V> GRADSTEP_HD V div(V a, V b) { return pack_traits<V>::div(a, b); }
/// The square root, correctly rounded.
template <class V> GRADSTEP_HD V sqrt(V a) { return pack_traits<V>::sqrt(a); }
/// a without its sign bit.
template <class V> GRADSTEP_HD V abs(V a) { return pack_traits<V>::abs(a); }
/// a^b by the standard library. Its rounding is outside the guarantee of equal bits.
template <class V> GRADSTEP_HD V pow(V a, V b) { return pack_traits<V>::pow(a, b); }
/// |magnitude| with the sign bit of `sign`.
template <class V> GRADSTEP_HD V copysign(V magnitude, V sign) { return pack_traits<V>::copysign(magnitude, sign); }
/// a with its sign multiplied by the sign bit of `sign`.
template <class V> GRADSTEP_HD V multiply_sign(V a, V sign) { return pack_traits<V>::multiply_sign(a, sign); }
/// mask ? a : b, lane by lane.
template <class Mask, class V> GRADSTEP_HD V select(Mask mask, V a, V b) { return pack_traits<V>::select(mask, a, b); }
/// Whether a comparison of packs V is true in every lane. For loops over packs, never in a rule.
template <class V, class Mask> GRADSTEP_HD bool all(Mask mask) { return pack_traits<V>::all(mask); }
/// The sign of a: -1, 0 or 1. A zero keeps its sign and NaN stays NaN.
template <class V> GRADSTEP_HD V sign(V a) { return select(a > V(0), V(1), select(a < V(0), V(-1), a)); }
/// The smaller of a and b. If a is NaN, the result is NaN (std::min).
template <class V> GRADSTEP_HD V min(V a, V b) { return pack_traits<V>::min(a, b); }
/// The larger of a and b. If a is NaN, the result is NaN (std::max).
template <class V> GRADSTEP_HD V max(V a, V b) { return pack_traits<V>::max(a, b); }
/// The larger of a and b. If one of them is NaN, the result is NaN (maximum of IEEE 754-2019).
template <class V> GRADSTEP_HD V maximum(V a, V b) { return select(b == b, max(a, b), b); }
/// |a| in double, for sums.
template <class V> GRADSTEP_HD typename pack_traits<V>::wide wide_abs(V a) {
    return pack_traits<V>::to_wide(pack_traits<V>::abs(a));
}
/// a^2 in double, which is exact for floats. A sum of squares thus cannot overflow or underflow.
template <class V> GRADSTEP_HD typename pack_traits<V>::wide wide_square(V a) {
    auto const x = pack_traits<V>::to_wide(a);
    if constexpr (sizeof(typename pack_traits<V>::value_type) < sizeof(double)) return x * x;
    else return mul(x, x); // rounded, whatever is added to it
}
/// a * b in double, in the same way.
template <class V> GRADSTEP_HD typename pack_traits<V>::wide wide_product(V a, V b) {
    auto const x = pack_traits<V>::to_wide(a), y = pack_traits<V>::to_wide(b);
    if constexpr (sizeof(typename pack_traits<V>::value_type) < sizeof(double)) return x * y;
    else return mul(x, y);
}
} // namespace gradstep::inline GRADSTEP_ISA::math

namespace gradstep::inline GRADSTEP_ISA {
/// epsilon, or the smallest normal number of T if epsilon is smaller. Added to the root of a sum of
/// squares, that number has no effect unless the root is 0. Then 0 / (0 + epsilon) is 0 and not
/// NaN.
template <class T> T never_zero(double epsilon) {
    return T(epsilon) < std::numeric_limits<T>::min() ? std::numeric_limits<T>::min() : T(epsilon);
}
/// The largest number of T, and the smallest normal one above 0. They are variables, since kernels
/// cannot call the functions of std::numeric_limits.
template <class T> inline constexpr T largest_number = std::numeric_limits<T>::max();
template <class T> inline constexpr T smallest_number = std::numeric_limits<T>::min();
/// a / b, or the largest number of T if the quotient is infinite. The product of the result with 0
/// is thus 0 and not NaN.
template <class T> GRADSTEP_HD T finite_quotient(T a, T b) { return math::min(math::div(a, b), largest_number<T>); }
/// x as a T, or the largest number of T if x is too large. x >= 0.
template <class T> GRADSTEP_HD T finite_number(double x) { return T(math::min(x, double(largest_number<T>))); }
/// The pack with a double for each element of V.
template <pack V> using wide_pack = typename pack_traits<V>::wide;
} // namespace gradstep::inline GRADSTEP_ISA
