#pragma once
#include <gradstep/number/pack.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// exp(x) and exp(x) - 1.
struct exponential {
    double value, less_one;
};

// Both for x <= 709, in double, with the same bits on every target that has an FMA. (The C
// library's results differ between libraries, and between CPU and GPU.) Errors are below 1 ulp (1.2
// without an FMA). The value is 0 below -708, where it would be subnormal.
//
// x = k ln 2 + r with |r| <= ln 2 / 2; p = (exp(r) - 1) / r by its Taylor polynomial of degree 12,
// whose remainder is 4e-18; then exp(x) = 2^k + 2^k r p by means of the exponent's bits. Without
// the 2^k - 1 of `less_one`, which is exact down to k = -53, nothing cancels. k is rounded by
// adding 1.5 * 2^52, which leaves it in the low bits of the sum.
GRADSTEP_HD exponential exp_and_less_one(double x) {
    constexpr double shift = 0x1.8p52, log2_e = 0x1.71547652b82fep0;
    constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33; // the product k * ln2_high is exact
    if (!(x >= -708)) return {0, -1};
    double const shifted = math::fma(x, log2_e, shift), k = shifted - shift;
    double const r = math::fnma(k, ln2_low, math::fnma(k, ln2_high, x));
    double p = 1.0 / 6227020800;
    p = math::fma(p, r, 1.0 / 479001600);
    p = math::fma(p, r, 1.0 / 39916800);
    p = math::fma(p, r, 1.0 / 3628800);
    p = math::fma(p, r, 1.0 / 362880);
    p = math::fma(p, r, 1.0 / 40320);
    p = math::fma(p, r, 1.0 / 5040);
    p = math::fma(p, r, 1.0 / 720);
    p = math::fma(p, r, 1.0 / 120);
    p = math::fma(p, r, 1.0 / 24);
    p = math::fma(p, r, 1.0 / 6);
    p = math::fma(p, r, 0.5);
    p = math::fma(p, r, 1.0);
    std::uint64_t const power = __builtin_bit_cast(std::uint64_t, shifted) << 52;
    auto const value = __builtin_bit_cast(std::uint64_t, math::fma(p, r, 1.0)) + power;
    auto const two_to_k = __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, 1.0) + power);
    return {__builtin_bit_cast(double, value), math::fma(two_to_k, math::mul(p, r), two_to_k - 1)};
}
GRADSTEP_HD double exp_of_negative(double x) { return exp_and_less_one(x).value; }
} // namespace gradstep::detail::inline GRADSTEP_ISA
