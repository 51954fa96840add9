#pragma once
#include <cstdint>

#include <gradstep/base/compiler.hpp>

namespace gradstep {
/// A 16-bit storage type, IEEE 754 binary16: sign, 5 exponent bits, 10 fraction bits; finite up
/// to 65504. It has no arithmetic: kernels widen it to float (exact), and round once when they
/// store.
///
/// Rounds to nearest, ties to even, with integer arithmetic on the bits, like the F16C
/// instructions. Subnormals (down to 2^-24) are kept, overflow gives infinity, NaN stays NaN with
/// its sign and becomes quiet.
struct GRADSTEP_VISIBLE float16 {
    std::uint16_t bits = 0;

    float16() = default;
    GRADSTEP_HD constexpr explicit float16(float x) : bits(round(__builtin_bit_cast(std::uint32_t, x))) {}
    /// Converts exactly.
    GRADSTEP_HD constexpr explicit operator float() const {
        std::uint32_t const sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;
        if (exponent == 0) { // fraction * 2^-24, exactly
            float const magnitude = static_cast<float>(fraction) * 0x1p-24f;
            return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, magnitude) | sign);
        }
        std::uint32_t const quiet = exponent == 0x1f && fraction != 0 ? 0x0040'0000u : 0;
        std::uint32_t const wide = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
        return __builtin_bit_cast(float, sign | wide << 23 | fraction << 13 | quiet);
    }
    friend GRADSTEP_HD constexpr bool operator==(float16 a, float16 b) {
        return static_cast<float>(a) == static_cast<float>(b);
    }

private:
    GRADSTEP_HD static constexpr std::uint16_t round(std::uint32_t x) {
        std::uint32_t const sign = x >> 16 & 0x8000u, magnitude = x & 0x7fff'ffffu;
        if (magnitude > 0x7f80'0000u) return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
        if (magnitude >= 0x4780'0000u) return static_cast<std::uint16_t>(sign | 0x7c00u); // 2^16 and above
        std::uint32_t rounded;
        if (magnitude >= 0x3880'0000u) { // 2^-14, the smallest normal number
            std::uint32_t const rebiased = magnitude - ((127u - 15u) << 23);
            rounded = (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13;
        } else if (magnitude < 0x3300'0000u) { // below 2^-25, half the smallest number
            rounded = 0;
        } else { // in units of 2^-24
            std::uint32_t const significand = (magnitude & 0x7f'ffffu) | 0x80'0000u, shift = 126 - (magnitude >> 23);
            rounded = (significand + (1u << (shift - 1)) - 1 + (significand >> shift & 1u)) >> shift;
        }
        return static_cast<std::uint16_t>(sign | rounded);
    }
};
} // namespace gradstep
