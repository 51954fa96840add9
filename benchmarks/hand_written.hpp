#pragma once
/// The yardstick: each rule as one would write it by hand for one type, one rule and one
/// instruction set. The library has no intrinsics of this kind; it must be as fast as these (and
/// give the same bits, which the benchmark checks).
///
/// AVX-512 where the flags allow it, else AVX2 with FMA. Four vectors a turn, unaligned loads, a
/// masked tail.
#include <immintrin.h>

#include <cmath>
#include <cstddef>

#if !defined(__AVX512F__) && !(defined(__AVX2__) && defined(__FMA__))
#error "The hand-written kernels need AVX-512 or AVX2 with FMA: compile with -march=native or -march=x86-64-v3"
#endif

#define HAND_INLINE __attribute__((always_inline)) inline
#define HAND_KERNEL __attribute__((noinline, flatten)) inline // all that it calls is inlined, bodies of loops included

// g++ 12 reports its own <avx512fintrin.h>, where unused operands of an intrinsic are left
// undefined on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace hand {

struct whole {}; // all lanes take part

#if defined(__AVX512F__)

inline constexpr char const* isa = "AVX-512";
inline constexpr std::size_t lanes = 16;
using reg = __m512;
using mask = __mmask16;

struct part { // the first lanes of a tail
    explicit part(std::size_t count) : bits(static_cast<__mmask16>((1u << count) - 1u)) {}
    __mmask16 bits;
};

HAND_INLINE reg load(float const* p, whole) { return _mm512_loadu_ps(p); }
HAND_INLINE reg load(float const* p, part k) { return _mm512_maskz_loadu_ps(k.bits, p); }
HAND_INLINE void store(float* p, reg x, whole) { _mm512_storeu_ps(p, x); }
HAND_INLINE void store(float* p, reg x, part k) { _mm512_mask_storeu_ps(p, k.bits, x); }
HAND_INLINE reg all(float x) { return _mm512_set1_ps(x); }
HAND_INLINE reg add(reg a, reg b) { return _mm512_add_ps(a, b); }
HAND_INLINE reg sub(reg a, reg b) { return _mm512_sub_ps(a, b); }
HAND_INLINE reg mul(reg a, reg b) { return _mm512_mul_ps(a, b); }
HAND_INLINE reg div(reg a, reg b) { return _mm512_div_ps(a, b); }
HAND_INLINE reg sqrt(reg a) { return _mm512_sqrt_ps(a); }
HAND_INLINE reg fma(reg a, reg b, reg c) { return _mm512_fmadd_ps(a, b, c); }   // a*b + c
HAND_INLINE reg fnma(reg a, reg b, reg c) { return _mm512_fnmadd_ps(a, b, c); } // c - a*b
HAND_INLINE reg fnms(reg a, reg b, reg c) { return _mm512_fnmsub_ps(a, b, c); } // -a*b - c
HAND_INLINE reg sign_bit(reg a) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_castps_si512(all(-0.0f))));
}
HAND_INLINE reg flip(reg a, reg sign) { // a, or -a where the bit is set
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_castps_si512(sign)));
}
HAND_INLINE reg larger(reg a, reg b) { return _mm512_max_ps(a, b); } // b if one is NaN
HAND_INLINE mask not_equal(reg a, reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
HAND_INLINE mask not_at_least(reg a, reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_NGE_UQ); }
HAND_INLINE mask equal(reg a, reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
HAND_INLINE mask either(mask a, mask b) { return static_cast<mask>(a | b); }
HAND_INLINE reg where(mask k, reg a) { return _mm512_maskz_mov_ps(k, a); }             // k ? a : 0
HAND_INLINE reg select(mask k, reg a, reg b) { return _mm512_mask_blend_ps(k, b, a); } // k ? a : b

#else

inline constexpr char const* isa = "AVX2";
inline constexpr std::size_t lanes = 8;
using reg = __m256;
using mask = __m256;

struct part {
    explicit part(std::size_t count)
        : bits(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                                  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}
    __m256i bits;
};

HAND_INLINE reg load(float const* p, whole) { return _mm256_loadu_ps(p); }
HAND_INLINE reg load(float const* p, part k) { return _mm256_maskload_ps(p, k.bits); }
HAND_INLINE void store(float* p, reg x, whole) { _mm256_storeu_ps(p, x); }
HAND_INLINE void store(float* p, reg x, part k) { _mm256_maskstore_ps(p, k.bits, x); }
HAND_INLINE reg all(float x) { return _mm256_set1_ps(x); }
HAND_INLINE reg add(reg a, reg b) { return _mm256_add_ps(a, b); }
HAND_INLINE reg sub(reg a, reg b) { return _mm256_sub_ps(a, b); }
HAND_INLINE reg mul(reg a, reg b) { return _mm256_mul_ps(a, b); }
HAND_INLINE reg div(reg a, reg b) { return _mm256_div_ps(a, b); }
HAND_INLINE reg sqrt(reg a) { return _mm256_sqrt_ps(a); }
HAND_INLINE reg fma(reg a, reg b, reg c) { return _mm256_fmadd_ps(a, b, c); }
HAND_INLINE reg fnma(reg a, reg b, reg c) { return _mm256_fnmadd_ps(a, b, c); }
HAND_INLINE reg fnms(reg a, reg b, reg c) { return _mm256_fnmsub_ps(a, b, c); }
HAND_INLINE reg sign_bit(reg a) { return _mm256_and_ps(a, all(-0.0f)); }
HAND_INLINE reg flip(reg a, reg sign) { return _mm256_xor_ps(a, sign); }
HAND_INLINE reg larger(reg a, reg b) { return _mm256_max_ps(a, b); }
HAND_INLINE mask not_equal(reg a, reg b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
HAND_INLINE mask not_at_least(reg a, reg b) { return _mm256_cmp_ps(a, b, _CMP_NGE_UQ); }
HAND_INLINE mask equal(reg a, reg b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
HAND_INLINE mask either(mask a, mask b) { return _mm256_or_ps(a, b); }
HAND_INLINE reg where(mask k, reg a) { return _mm256_and_ps(k, a); }
HAND_INLINE reg select(mask k, reg a, reg b) { return _mm256_blendv_ps(b, a, k); }

#endif

/// body(i, which) for every vector of n elements, four a turn.
template <class Body> HAND_INLINE void sweep(std::size_t n, Body body) {
    std::size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        body(i, whole{});
        body(i + lanes, whole{});
        body(i + 2 * lanes, whole{});
        body(i + 3 * lanes, whole{});
    }
    for (; i + lanes <= n; i += lanes) body(i, whole{});
    if (i < n) body(i, part(n - i));
}

// Coefficients of the first step for a learning rate, computed in double; defaults as in the
// library.

struct sgd_coeffs {
    float rate;
    explicit sgd_coeffs(double lr) : rate(static_cast<float>(lr)) {}
};

struct momentum_coeffs {
    float rate, mu;
    explicit momentum_coeffs(double lr) : rate(static_cast<float>(lr)), mu(0.9f) {}
};

struct adagrad_coeffs {
    float rate, eps;
    explicit adagrad_coeffs(double lr) : rate(static_cast<float>(lr)), eps(1e-10f) {}
};

struct rmsprop_coeffs {
    float rho, gain, rate, eps;
    explicit rmsprop_coeffs(double lr)
        : rho(0.99f), gain(static_cast<float>(1 - 0.99)), rate(static_cast<float>(lr)), eps(1e-8f) {}
};

struct adam_coeffs {
    float b1, a1, b2, a2, rate, vscale, eps, l2;
    explicit adam_coeffs(double lr, double l2_rate = 0, double beta1 = 0.9, double beta2 = 0.999)
        : b1(static_cast<float>(beta1)), a1(static_cast<float>(1 - beta1)), b2(static_cast<float>(beta2)),
          a2(static_cast<float>(1 - beta2)), rate(static_cast<float>(lr / (1 - beta1))),
          vscale(static_cast<float>(1 / std::sqrt(1 - beta2))), eps(1e-8f), l2(static_cast<float>(l2_rate)) {}
};

struct adabelief_coeffs {
    float b1, a1, b2, a2, rate, scale, eps, inside;
    explicit adabelief_coeffs(double lr, double beta1 = 0.9, double beta2 = 0.999)
        : b1(static_cast<float>(beta1)), a1(static_cast<float>(1 - beta1)), b2(static_cast<float>(beta2)),
          a2(static_cast<float>(1 - beta2)), rate(static_cast<float>(lr / (1 - beta1))),
          scale(static_cast<float>(1 / std::sqrt(1 - beta2))), eps(1e-16f), inside(1e-16f) {}
};

struct ftrl_coeffs {
    float inverse_rate, beta, l1, l2;
    ftrl_coeffs(double lr, double l1_rate, double l2_rate)
        : inverse_rate(static_cast<float>(1 / lr)), beta(1.0f), l1(static_cast<float>(l1_rate)),
          l2(static_cast<float>(l2_rate)) {}
};

HAND_KERNEL void sgd(sgd_coeffs c, std::size_t n, float* w, float const* g) {
    reg const rate = all(c.rate);
    sweep(n,
          [=](std::size_t i, auto which) { store(w + i, fnma(rate, load(g + i, which), load(w + i, which)), which); });
}

HAND_KERNEL void momentum(momentum_coeffs c, std::size_t n, float* w, float const* g, float* m) {
    reg const rate = all(c.rate), mu = all(c.mu);
    sweep(n, [=](std::size_t i, auto which) {
        reg const m1 = fma(mu, load(m + i, which), load(g + i, which));
        store(w + i, fnma(rate, m1, load(w + i, which)), which);
        store(m + i, m1, which);
    });
}

HAND_KERNEL void adagrad(adagrad_coeffs c, std::size_t n, float* w, float const* g, float* sum) {
    reg const rate = all(c.rate), eps = all(c.eps);
    sweep(n, [=](std::size_t i, auto which) {
        reg const g1 = load(g + i, which);
        reg const sum1 = fma(g1, g1, load(sum + i, which));
        store(w + i, fnma(rate, div(g1, add(sqrt(sum1), eps)), load(w + i, which)), which);
        store(sum + i, sum1, which);
    });
}

HAND_KERNEL void rmsprop(rmsprop_coeffs c, std::size_t n, float* w, float const* g, float* square) {
    reg const rho = all(c.rho), gain = all(c.gain), rate = all(c.rate), eps = all(c.eps);
    sweep(n, [=](std::size_t i, auto which) {
        reg const g1 = load(g + i, which);
        reg const square1 = fma(rho, load(square + i, which), mul(mul(gain, g1), g1));
        store(w + i, fnma(rate, div(g1, add(sqrt(square1), eps)), load(w + i, which)), which);
        store(square + i, square1, which);
    });
}

HAND_KERNEL void adabelief(adabelief_coeffs c, std::size_t n, float* w, float const* g, float* m, float* s) {
    reg const b1 = all(c.b1), a1 = all(c.a1), b2 = all(c.b2), a2 = all(c.a2);
    reg const rate = all(c.rate), scale = all(c.scale), eps = all(c.eps), inside = all(c.inside);
    sweep(n, [=](std::size_t i, auto which) {
        reg const g1 = load(g + i, which);
        reg const m1 = fma(b1, load(m + i, which), mul(a1, g1));
        reg const off = sub(g1, m1);
        reg const s1 = add(fma(b2, load(s + i, which), mul(mul(a2, off), off)), inside);
        store(w + i, fnma(rate, div(m1, fma(scale, sqrt(s1), eps)), load(w + i, which)), which);
        store(m + i, m1, which);
        store(s + i, s1, which);
    });
}

HAND_KERNEL void adam(adam_coeffs c, std::size_t n, float* w, float const* g, float* m, float* v) {
    reg const b1 = all(c.b1), a1 = all(c.a1), b2 = all(c.b2), a2 = all(c.a2);
    reg const rate = all(c.rate), vscale = all(c.vscale), eps = all(c.eps);
    sweep(n, [=](std::size_t i, auto which) {
        reg const g1 = load(g + i, which);
        reg const m1 = fma(b1, load(m + i, which), mul(a1, g1));
        reg const v1 = fma(b2, load(v + i, which), mul(mul(a2, g1), g1));
        store(w + i, fnma(rate, div(m1, fma(vscale, sqrt(v1), eps)), load(w + i, which)), which);
        store(m + i, m1, which);
        store(v + i, v1, which);
    });
}

HAND_KERNEL void adam_l2(adam_coeffs c, std::size_t n, float* w, float const* g, float* m, float* v) {
    reg const b1 = all(c.b1), a1 = all(c.a1), b2 = all(c.b2), a2 = all(c.a2);
    reg const rate = all(c.rate), vscale = all(c.vscale), eps = all(c.eps), l2 = all(c.l2);
    sweep(n, [=](std::size_t i, auto which) {
        reg const w0 = load(w + i, which);
        reg const g1 = fma(l2, w0, load(g + i, which));
        reg const m1 = fma(b1, load(m + i, which), mul(a1, g1));
        reg const v1 = fma(b2, load(v + i, which), mul(mul(a2, g1), g1));
        store(w + i, fnma(rate, div(m1, fma(vscale, sqrt(v1), eps)), w0), which);
        store(m + i, m1, which);
        store(v + i, v1, which);
    });
}

HAND_KERNEL void ftrl(ftrl_coeffs c, std::size_t n, float* w, float const* g, float* z, float* sum) {
    reg const inverse_rate = all(c.inverse_rate), beta = all(c.beta), l1 = all(c.l1), l2 = all(c.l2);
    reg const zero = all(0), one = all(1);
    sweep(n, [=](std::size_t i, auto which) {
        reg const g0 = load(g + i, which), z0 = load(z + i, which);
        reg const w0 = select(not_equal(z0, z0), z0, load(w + i, which)); // a NaN in z is one in w
        reg const sum1 = fma(g0, g0, load(sum + i, which));
        reg const q = fma(add(beta, sqrt(sum1)), inverse_rate, l2);

        // z were the weight 0 after this step, seen along the sign of the weight (of z itself,
        // where the weight is 0).
        mask const moved = not_equal(w0, zero);
        reg const pull = select(moved, fnma(w0, q, g0), add(z0, g0));
        reg const side = sign_bit(select(moved, w0, pull)), over = flip(pull, side);
        reg const e = sub(over, where(moved, l1));
        // Without gradient a weight stands, though w0 * q may underflow.
        mask const keeps = either(not_at_least(over, zero), equal(select(moved, g0, one), zero));
        reg const beyond = flip(larger(zero, sub(e, l1)), side);

        reg const w1 = sub(where(keeps, w0), div(select(keeps, g0, beyond), q));
        store(w + i, w1, which);
        store(z + i, select(not_equal(w1, zero), fnms(w1, q, flip(l1, sign_bit(w1))), flip(e, side)), which);
        store(sum + i, sum1, which);
    });
}

/// The same rule in the form of its paper (McMahan et al. 2013, Algorithm 1), with the roots of
/// both sums. Its roundings are others, so are its bits, and a weight does not stand still without
/// gradient.
HAND_KERNEL void ftrl_in_z(ftrl_coeffs c, std::size_t n, float* w, float const* g, float* z, float* sum) {
    reg const inverse_rate = all(c.inverse_rate), beta = all(c.beta), l1 = all(c.l1), l2 = all(c.l2);
    sweep(n, [=](std::size_t i, auto which) {
        reg const g1 = load(g + i, which), sum0 = load(sum + i, which);
        reg const sum1 = fma(g1, g1, sum0), root = sqrt(sum1);
        reg const sigma = mul(sub(root, sqrt(sum0)), inverse_rate);
        reg const z1 = fnma(sigma, load(w + i, which), add(load(z + i, which), g1));
        reg const side = sign_bit(z1), q = fma(add(beta, root), inverse_rate, l2);
        mask const beyond = not_at_least(l1, flip(z1, side)); // |z| > l1
        store(w + i, where(beyond, div(sub(flip(l1, side), z1), q)), which);
        store(z + i, z1, which);
        store(sum + i, sum1, which);
    });
}

} // namespace hand

#undef HAND_KERNEL
#undef HAND_INLINE
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
