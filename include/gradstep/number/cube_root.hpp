#pragma once
#include <gradstep/number/pack.hpp>

namespace gradstep::inline GRADSTEP_ISA::math {
/// The cube root, for packs of float and double. Its error is below 5/6 + 1/100 ulp, and below
/// 2/3 + 1/100 ulp except just below a power of two. If the root is representable, it is exact.
/// Zeros, infinities and NaN stay as they are. Every operation is rounded on its own, so the bits
/// are the same in every pack, with and without an FMA.
///
///     x = |a|, scaled into the normal numbers;  t = its root, estimated with an error of 4 %
///     t <- t * (t^3 + 2 x) / (2 t^3 + x)        once for float, twice for double
///     t <- t, rounded to half of its digits, so that t * t is exact
///     r = x / (t * t)
///     root = t + t * (r - t) / (2 t + r)
///
/// Both formulas are Halley's method, where an error e becomes 2/3 e^3. In the second one, only r
/// and the last sum are rounded at full size. r is off by at most half an ulp, of which a third
/// reaches the root. If a power of two lies between them, half an ulp of r is an ulp of the root.
template <class V> GRADSTEP_HD V cbrt(V a) {
    using T = typename pack_traits<V>::value_type;
    constexpr bool is_float = sizeof(T) == sizeof(float);
    constexpr T smallest = is_float ? T(0x1p-100) : T(0x1p-900), largest = largest_number<T>;
    constexpr T lift = is_float ? T(0x1p48) : T(0x1p300), root_of_lift = is_float ? T(0x1p-16) : T(0x1p-100);
    constexpr T half_digits = is_float ? T(0x1p12 + 1) : T(0x1p27 + 1);
    V const magnitude = abs(a);
    auto const has_root = (magnitude > V(T(0))) & (magnitude <= V(largest));
    V const ordinary = select(has_root, magnitude, V(T(1))); // so that nothing below overflows
    auto const is_small = ordinary < V(smallest);
    V const x = mul(ordinary, select(is_small, V(lift), V(T(1))));

    V const eighth = mul(x, V(T(0.125)));
    V t = pack_traits<V>::cbrt_estimate(x);
    for (int k = 0; k != (is_float ? 1 : 2); ++k) {
        V const h = mul(t, V(T(0.5))), cube = mul(mul(h, h), h); // of a half: the cube of t could overflow
        t = mul(t, div(cube + (eighth + eighth), (cube + cube) + eighth));
    }
    V const multiple = mul(t, V(half_digits));
    t = multiple - (multiple - t);
    V const r = div(x, mul(t, t));
    V const root = t + mul(t, div(r - t, (t + t) + r));
    return select(has_root, copysign(mul(root, select(is_small, V(root_of_lift), V(T(1)))), a), a);
}
} // namespace gradstep::inline GRADSTEP_ISA::math
