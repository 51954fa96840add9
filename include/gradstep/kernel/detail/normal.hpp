#pragma once
#include <gradstep/number/detail/rounding.hpp>
#include <gradstep/policy/concepts.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The random words of the noise of one tensor in one step. They are the words of stochastic
// rounding under another seed, so that a step that does both uses independent bits.
GRADSTEP_INLINE element_words noise_words(std::uint64_t seed, std::int64_t step, std::uint64_t id) {
    constexpr std::uint64_t stream = 0x6e6f697365ull << 24; // "noise"
    return element_words::of(seed ^ stream, step, id);
}

// The natural logarithm of x in (0, 1], normal: log x = e ln 2 + log m, with m in [sqrt(1/2),
// sqrt(2)), and the polynomial of Cephes (logf) for log m.
template <pack V> GRADSTEP_HD V log_of_share(V x) {
    using T = typename pack_traits<V>::value_type;
    V const m = pack_traits<V>::significand(x), e = pack_traits<V>::exponent(x);
    auto const is_large = m > V(T(0x1.6a09e6p0)); // sqrt(2)
    V const f = math::fma(m, math::select(is_large, V(T(0.5)), V(T(1))), V(T(-1)));
    V const exponent = e + math::select(is_large, V(T(1)), V(T(0)));
    V p(T(7.0376836292e-2));
    p = math::fma(p, f, V(T(-1.1514610310e-1)));
    p = math::fma(p, f, V(T(1.1676998740e-1)));
    p = math::fma(p, f, V(T(-1.2420140846e-1)));
    p = math::fma(p, f, V(T(1.4249322787e-1)));
    p = math::fma(p, f, V(T(-1.6668057665e-1)));
    p = math::fma(p, f, V(T(2.0000714765e-1)));
    p = math::fma(p, f, V(T(-2.4999993993e-1)));
    p = math::fma(p, f, V(T(3.3333331174e-1)));
    V const square = math::mul(f, f);
    V const beside = math::fma(math::mul(p, f), square, math::mul(V(T(-0.5)), square));
    return math::fma(exponent, V(T(0x1.62e430p-1)), f + beside);
}

// A standard normal number for each of the lanes, from element i on: the quantile function at the
// word of the element. With the word as a signed number k:
//
//     u = k + 0.5,   q = |u| / 2^32,   x = 1 - 2 q,   y = -log(4 q (1 - q)) = -log(1 - x^2)
//     n = sgn(u) * sqrt(2) * x * p(y)
//
// p approximates erfinv(x) / x: Giles, "Approximating the erfinv function", GPU Computing Gems 2
// (2011). Below y = 5 it is his polynomial in y - 2.5 for single precision; above, one in
// sqrt(y) - 3 of the same degree that is fitted as far as |u| = 1/2 needs it. Every operation is
// rounded on its own, so the bits are the same in every pack.
//
// |n| <= 6.338. Where |u| < 2^30, n is off by less than 2^-20 of it from the quantile of
// |u| / 2^32, elsewhere by less than 2^-18. The distance of the distribution from the normal one is
// below 2^-22 (Kolmogorov-Smirnov): 2^-23 by these errors, and 2^-33 by the steps of q.
// test/core/normal.cpp measures both.
template <pack V> GRADSTEP_HD V standard_normal(element_words const& words, std::uint64_t i) {
    using T = typename pack_traits<V>::value_type;
    V const u = pack_traits<V>::signed_word(words, i) + V(T(0.5));
    V const q = math::mul(math::abs(u), V(T(0x1p-32)));
    V const q4 = math::mul(V(T(4)), q);
    V const x = math::fnma(V(T(2)), q, V(T(1)));
    V const y = -log_of_share(math::fnma(q4, q, q4));

    V const a = y - V(T(2.5));
    V near(T(2.81022636e-08));
    near = math::fma(near, a, V(T(3.43273939e-07)));
    near = math::fma(near, a, V(T(-3.5233877e-06)));
    near = math::fma(near, a, V(T(-4.39150654e-06)));
    near = math::fma(near, a, V(T(0.00021858087)));
    near = math::fma(near, a, V(T(-0.00125372503)));
    near = math::fma(near, a, V(T(-0.00417768164)));
    near = math::fma(near, a, V(T(0.246640727)));
    near = math::fma(near, a, V(T(1.50140941)));
    V const b = math::sqrt(math::abs(y)) - V(T(3)); // rounding can make y a little less than 0
    V far(T(-2.19051978e-05));
    far = math::fma(far, b, V(T(-0.000108777021)));
    far = math::fma(far, b, V(T(0.00114575966)));
    far = math::fma(far, b, V(T(-0.00342982204)));
    far = math::fma(far, b, V(T(0.00582056273)));
    far = math::fma(far, b, V(T(-0.00770476285)));
    far = math::fma(far, b, V(T(0.00942544457)));
    far = math::fma(far, b, V(T(1.00168092)));
    far = math::fma(far, b, V(T(2.83297739)));
    V const p = math::select(y < V(T(5)), near, far);
    return math::multiply_sign(math::mul(math::mul(x, V(T(0x1.6a09e6p0))), p), u);
}

// The words of a rule's noise, if it has noise.
struct no_noise {};
template <class Rule> using noise_of = std::conditional_t<noisy_rule<Rule>, element_words, no_noise>;
} // namespace gradstep::detail::inline GRADSTEP_ISA
