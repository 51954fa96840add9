#pragma once
#include <cstdint>

#include <gradstep/base/compiler.hpp>

namespace gradstep {
/// A 16-bit storage type: sign, the 8 exponent bits of float, 7 fraction bits. It has no
/// arithmetic: kernels widen it to float (exact), and round once when they store.
///
/// Rounds to nearest, ties to even, with integer arithmetic on the bits. Subnormals are kept (the
/// hardware's bf16 instruction flushes them), overflow gives infinity, NaN stays NaN with its sign
/// and becomes quiet.
struct GRADSTEP_VISIBLE bfloat16 {
    std::uint16_t bits = 0;

    bfloat16() = default;
    GRADSTEP_HD constexpr explicit bfloat16(float x) : bits(round(__builtin_bit_cast(std::uint32_t, x))) {}
    /// Converts exactly.
    GRADSTEP_HD constexpr explicit operator float() const {
        return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
    }
    friend GRADSTEP_HD constexpr bool operator==(bfloat16 a, bfloat16 b) {
        return static_cast<float>(a) == static_cast<float>(b);
    }

private:
    GRADSTEP_HD static constexpr std::uint16_t round(std::uint32_t x) {
        bool const nan = (x & 0x7fff'ffffu) > 0x7f80'0000u;
        return static_cast<std::uint16_t>(nan ? (x >> 16) | 0x40u : (x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
    }
};
} // namespace gradstep
