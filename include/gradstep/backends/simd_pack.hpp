#pragma once
/// The only header that names xsimd operations. It uses the xsimd operations that are correct in
/// every version from 8.1 to 14, and replaces the others: fused multiply-add (unfused on AVX-512
/// before xsimd 11), float division and square root on NEON (Newton steps from an estimate),
/// negation (loses -0), inequality with NaN, masked and 16-bit loads and stores.
#include <bit>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push // g++ 12 warns about its own <avx512fintrin.h> (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <xsimd/xsimd.hpp>

#include <gradstep/backends/detail/coded_registers.hpp>
#include <gradstep/backends/detail/newton_divider.hpp>
#include <gradstep/backends/detail/x86.hpp>
#include <gradstep/number/lanes.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Architectures with instructions below. All others use xsimd, or work lane by lane.
#if GRADSTEP_AVX512
template <class Arch> inline constexpr bool is_avx512 = std::is_base_of_v<xsimd::avx512f, Arch>;
#else
template <class Arch> inline constexpr bool is_avx512 = false;
#endif
#if defined(__AVX2__)
template <class Arch> inline constexpr bool is_avx2 = std::is_base_of_v<xsimd::avx2, Arch>;
#else
template <class Arch> inline constexpr bool is_avx2 = false;
#endif
#if defined(__aarch64__)
template <class Arch> inline constexpr bool is_neon64 = std::is_base_of_v<xsimd::neon64, Arch>;
#endif

// The best architecture that the compiler's flags allow.
#if defined(__AVX512F__) && !GRADSTEP_AVX512
using best_arch = xsimd::avx2;
#else
using best_arch = xsimd::default_arch;
#endif
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// Divides and takes roots with the processor's divider. Every divider gives the same bits.
struct divider {};
/// Divides and takes roots of pairs of float packs on AVX-512 (`lanes<V, 2>`), with the same bits.
/// It uses multiply-adds for some divisions or roots if this processor gains from it
/// (backends/detail/newton_divider.hpp). If the processor gains from roots by multiply-adds and
/// `roots` is true, it computes every second root this way.
template <bool roots> struct newton_divider {};

/// A pack of xsimd, its type `batch`, with as many elements T as fit into a register of `Arch`.
template <class T, class Arch, class Division = divider> struct simd {
    static_assert(GRADSTEP_AVX512 || !std::is_base_of_v<xsimd::avx512f, Arch>,
                  "gradstep: packs of AVX-512: the compiler lacks some of its parts; expected F, BW, DQ and VL; "
                  "compile with -march=x86-64-v4, or use another architecture");
    using batch = xsimd::batch<T, Arch>;
    batch value;

    simd() = default;
    GRADSTEP_HD simd(T x) : value(x) {}
    GRADSTEP_HD explicit simd(batch x) : value(x) {}

    /// The result of a comparison, lane by lane.
    struct mask {
        xsimd::batch_bool<T, Arch> value;
        friend GRADSTEP_HD mask operator&(mask a, mask b) { return {a.value & b.value}; }
        friend GRADSTEP_HD mask operator|(mask a, mask b) { return {a.value | b.value}; }
        friend GRADSTEP_HD mask operator!(mask a) { return {!a.value}; }
    };

    friend GRADSTEP_HD simd operator+(simd a, simd b) { return simd(a.value + b.value); }
    friend GRADSTEP_HD simd operator-(simd a, simd b) { return simd(a.value - b.value); }
    friend GRADSTEP_HD simd operator*(simd a, simd b) { return simd(a.value * b.value); }
    friend GRADSTEP_HD simd operator-(simd a) {
        if constexpr (std::is_integral_v<T>) return simd(batch(T(0)) - a.value);
        else return simd(a.value ^ batch(T(-0.0)));
    }
    friend GRADSTEP_HD mask operator<(simd a, simd b) { return {a.value < b.value}; }
    friend GRADSTEP_HD mask operator<=(simd a, simd b) { return {a.value <= b.value}; }
    friend GRADSTEP_HD mask operator>(simd a, simd b) { return {a.value > b.value}; }
    friend GRADSTEP_HD mask operator>=(simd a, simd b) { return {a.value >= b.value}; }
    friend GRADSTEP_HD mask operator==(simd a, simd b) { return {a.value == b.value}; }
    friend GRADSTEP_HD mask operator!=(simd a, simd b) {
#if defined(__AVX__)
        if constexpr (sizeof(batch) > 16)
            return {xsimd::batch_bool<T, Arch>(detail::x86::not_equal(a.value.data, b.value.data))};
#endif
        return !(a == b);
    }
};

template <class T, class Arch, class Division> struct pack_traits<simd<T, Arch, Division>> {
    using V = simd<T, Arch, Division>;
    using batch = typename V::batch;
    using value_type = T;
    static constexpr std::size_t size = batch::size;
    static constexpr bool avx512 = detail::is_avx512<Arch>, avx2 = detail::is_avx2<Arch>;
    static constexpr bool is_float = std::is_same_v<T, float>;

    /// Whether `first(count)` works for memory of type S. A loop then ends in a masked pack;
    /// otherwise it handles the remaining elements one by one.
    template <class S>
    static constexpr bool can_mask = std::is_floating_point_v<T> &&
                                     (std::is_same_v<S, T> ? avx512 || avx2 : avx512 && is_float && detail::is_half<S>);

    /// The pack for a loop over memory of type S. On AVX-512, a loop over bfloat16 converts two
    /// packs at once, which needs half as many shuffles.
    template <class S>
    using body = std::conditional_t<avx512 && is_float && std::is_same_v<S, bfloat16>, lanes<V, 2>, V>;
    /// Whether there is a special pack (`cached_body`) for a loop over memory in the caches, whose
    /// speed the divider limits. Call prepare_cached_body() before the loop.
    static constexpr bool has_cached_body = avx512 && is_float;
    template <bool roots> using cached_body = lanes<simd<T, Arch, newton_divider<roots>>, 2>;
#if GRADSTEP_AVX512
    /// Half a register: the divider is slower for all of it.
    using short_pack = std::conditional_t<avx512 && std::is_floating_point_v<T>, simd<T, xsimd::avx2>, V>;
    static void prepare_cached_body() { detail::x86::look_up_newton_mode(); }
    static constexpr bool uses_newton = !std::is_same_v<Division, divider>;
    GRADSTEP_HD static void div_two(V a0, V b0, V a1, V b1, V& q0, V& q1) requires(uses_newton) {
        if (detail::x86::takes(detail::x86::newton_mode::quotients)) {
            __m512 q[2];
            detail::x86::quotients(a0.value.data, b0.value.data, a1.value.data, b1.value.data, q[0], q[1]);
            q0 = V(batch(q[0]));
            q1 = V(batch(q[1]));
        } else {
            q0 = div(a0, b0);
            q1 = div(a1, b1);
        }
    }
    GRADSTEP_HD static void sqrt_two(V a0, V a1, V& root0, V& root1) requires(uses_newton) {
        bool const takes_one =
            std::is_same_v<Division, newton_divider<true>> && detail::x86::takes(detail::x86::newton_mode::roots);
        root0 = takes_one ? V(batch(detail::x86::root(a0.value.data))) : sqrt(a0);
        root1 = sqrt(a1);
    }
    GRADSTEP_HD static void load_two(bfloat16 const* p, V& low, V& high) requires(avx512&& is_float) {
        detail::x86::load_32(p, low.value.data, high.value.data);
    }
    GRADSTEP_HD static void store_two(bfloat16* p, V low, V high) requires(avx512&& is_float) {
        detail::x86::store_32(p, low.value.data, high.value.data);
    }
#endif

    /// Whether AVX2 converts memory of type S. float16 also needs F16C, which -mavx2 alone does not
    /// enable.
    template <class S>
    static constexpr bool has_load_8 = is_float &&
                                       (std::is_same_v<S, bfloat16> || (std::is_same_v<S, float16> && GRADSTEP_F16C));

    /// Selects lanes 0 to count - 1, for a load or store that skips the other lanes. count > 0.
    GRADSTEP_HD static auto first(std::size_t count) { return some_lanes{mask_of(count)}; }
    /// The same, but a load puts zeros into the other lanes.
    GRADSTEP_HD static auto first_or_zero(std::size_t count) { return some_lanes_or_zero{mask_of(count)}; }

    template <class S> GRADSTEP_HD static V load(S const* p, all_lanes) {
        if constexpr (std::is_same_v<S, T>) {
            return V(batch::load_unaligned(p));
#if defined(__AVX2__)
        } else if constexpr (has_load_8<S> && avx2) {
            return V(batch(detail::x86::load_8(p)));
#endif
#if GRADSTEP_AVX512
        } else if constexpr (detail::is_half<S> && is_float && avx512) {
            return V(batch(detail::x86::load_16(p)));
#endif
        } else {
            alignas(batch) T wide[size];
            for (std::size_t k = 0; k < size; ++k) wide[k] = T(detail::widen(p[k]));
            return V(batch::load_aligned(wide));
        }
    }
    template <class S> GRADSTEP_HD static void store(S* p, V x, all_lanes) {
        if constexpr (std::is_same_v<S, T>) {
            x.value.store_unaligned(p);
#if defined(__AVX2__)
        } else if constexpr (has_load_8<S> && avx2) {
            detail::x86::store_8(p, x.value);
#endif
#if GRADSTEP_AVX512
        } else if constexpr (detail::is_half<S> && is_float && avx512) {
            detail::x86::store_16(p, x.value);
#endif
        } else {
            alignas(batch) T wide[size];
            x.value.store_aligned(wide);
            for (std::size_t k = 0; k < size; ++k) p[k] = S(wide[k]);
        }
    }
#if defined(__AVX2__)
    template <class S, class Mask> GRADSTEP_HD static V load(S const* p, some_lanes<Mask> lanes) {
        return V(batch(detail::x86::load_or_first(p, lanes.mask)));
    }
    template <class S, class Mask> GRADSTEP_HD static V load(S const* p, some_lanes_or_zero<Mask> lanes) {
        return V(batch(detail::x86::load_or_zero(p, lanes.mask)));
    }
    template <class S, class Mask> GRADSTEP_HD static void store(S* p, V x, some_lanes<Mask> lanes) {
        detail::x86::store(p, x.value.data, lanes.mask);
    }
#endif

    template <class S> GRADSTEP_HD static V trained(V master, V stored) {
#if defined(__AVX2__)
        if constexpr (has_load_8<S> && avx2) return V(batch(detail::x86::trained(S(), master.value, stored.value)));
        else
#endif
#if GRADSTEP_AVX512
            if constexpr (detail::is_half<S> && is_float && avx512)
            return V(batch(detail::x86::trained(S(), master.value, stored.value)));
        else
#endif
            return lane_by_lane(master, [&](T x, std::size_t k) GRADSTEP_INLINE_LAMBDA {
                return one::template trained<S>(x, stored.value.get(k));
            });
    }

    /// The pack of the same elements in double, in two registers if T is float. `to_wide` converts
    /// to it.
    using wide = std::conditional_t<is_float, lanes<simd<double, Arch>, 2>, V>;
    GRADSTEP_HD static wide to_wide(V a) requires(std::is_floating_point_v<T>) {
        if constexpr (!is_float) {
            return a;
        } else {
            using half_batch = xsimd::batch<double, Arch>;
            wide out;
#if defined(__x86_64__)
            out.value[0] = simd<double, Arch>(half_batch(detail::x86::widen_low(a.value.data)));
            out.value[1] = simd<double, Arch>(half_batch(detail::x86::widen_high(a.value.data)));
#else
            alignas(batch) T narrow[size];
            alignas(half_batch) double wider[size];
            a.value.store_aligned(narrow);
            for (std::size_t k = 0; k < size; ++k) wider[k] = narrow[k];
            for (std::size_t k = 0; k < 2; ++k)
                out.value[k] = simd<double, Arch>(half_batch::load_aligned(wider + k * half_batch::size));
#endif
            return out;
        }
    }

    GRADSTEP_HD static V fma(V a, V b, V c) {
        // xsimd may multiply integers one by one as signed numbers, whose overflow is undefined.
        if constexpr (std::is_integral_v<T>) {
            alignas(batch) T y[size], z[size];
            b.value.store_aligned(y);
            c.value.store_aligned(z);
            return lane_by_lane(a, [&](T x, std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::fma(x, y[k], z[k]); });
        }
#if GRADSTEP_FMA && defined(__x86_64__)
        else
            return V(batch(detail::x86::fmadd(a.value.data, b.value.data, c.value.data)));
#else
        else
            return V(xsimd::fma(a.value, b.value, c.value));
#endif
    }
    GRADSTEP_HD static V fnma(V a, V b, V c) {
#if GRADSTEP_FMA && defined(__x86_64__)
        return V(batch(detail::x86::fnmadd(a.value.data, b.value.data, c.value.data)));
#else
        return fma(-a, b, c);
#endif
    }
    GRADSTEP_HD static V mul(V a, V b) { return fma(a, b, V(T(-0.0))); }
    GRADSTEP_HD static V div(V a, V b) {
#if defined(__aarch64__)
        if constexpr (detail::is_neon64<Arch> && is_float) return V(batch(vdivq_f32(a.value.data, b.value.data)));
        else
#endif
            return V(a.value / b.value);
    }
    GRADSTEP_HD static V sqrt(V a) {
#if defined(__aarch64__)
        if constexpr (detail::is_neon64<Arch> && is_float) return V(batch(vsqrtq_f32(a.value.data)));
        else
#endif
            return V(xsimd::sqrt(a.value));
    }
    GRADSTEP_HD static V abs(V a) { return V(xsimd::abs(a.value)); }
    GRADSTEP_HD static V pow(V a, V b) {
        return lane_by_lane(a, [&](T x, std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::pow(x, b.value.get(k)); });
    }
    // Compilers make this loop integer instructions of the register.
    GRADSTEP_HD static V cbrt_estimate(V a) {
        return lane_by_lane(a, [](T x, std::size_t) GRADSTEP_INLINE_LAMBDA { return one::cbrt_estimate(x); });
    }
    template <class Words>
    GRADSTEP_HD static V drop_bits(V x, std::uint32_t dropped, Words const& words, std::uint64_t i) {
#if defined(__AVX2__)
        if constexpr (is_float && (avx2 || avx512))
            return V(batch(detail::x86::drop_bits(x.value.data, dropped, words, i)));
        else
#endif
            return lane_by_lane(x, [&](T lane, std::size_t k)
                                       GRADSTEP_INLINE_LAMBDA { return one::drop_bits(lane, dropped, words, i + k); });
    }
    template <class Words> GRADSTEP_HD static V signed_word(Words const& words, std::uint64_t i) {
#if defined(__AVX2__)
        if constexpr (is_float && (avx2 || avx512))
            return V(batch(detail::x86::signed_words(typename batch::register_type(), words, i)));
        else
#endif
            return lane_by_lane(V(T(0)), [&](T, std::size_t k)
                                             GRADSTEP_INLINE_LAMBDA { return one::signed_word(words, i + k); });
    }
    // Like cbrt_estimate.
    GRADSTEP_HD static V significand(V a) {
        return lane_by_lane(a, [](T x, std::size_t) GRADSTEP_INLINE_LAMBDA { return one::significand(x); });
    }
    GRADSTEP_HD static V exponent(V a) {
        return lane_by_lane(a, [](T x, std::size_t) GRADSTEP_INLINE_LAMBDA { return one::exponent(x); });
    }
    using codes = typename detail::codes_for<avx512 ? 16 : avx2 ? 8 : 1>::type;
    GRADSTEP_HD static V copysign(V magnitude, V sign) {
        return V(xsimd::abs(magnitude.value) | (sign.value & batch(T(-0.0))));
    }
    GRADSTEP_HD static V multiply_sign(V a, V sign) { return V(a.value ^ (sign.value & batch(T(-0.0)))); }
    // The instruction returns its second operand for NaN and for two zeros.
    GRADSTEP_HD static V min(V a, V b) {
#if defined(__x86_64__)
        return V(batch(detail::x86::min(b.value.data, a.value.data)));
#else
        return select(b < a, b, a);
#endif
    }
    GRADSTEP_HD static V max(V a, V b) {
#if defined(__x86_64__)
        return V(batch(detail::x86::max(b.value.data, a.value.data)));
#else
        return select(a < b, b, a);
#endif
    }
    GRADSTEP_HD static V select(typename V::mask mask, V a, V b) {
        return V(xsimd::select(mask.value, a.value, b.value));
    }
    GRADSTEP_HD static bool all(typename V::mask mask) { return xsimd::all(mask.value); }

private:
    using one = pack_traits<T>;
    GRADSTEP_HD static auto mask_of([[maybe_unused]] std::size_t count) {
        if constexpr (avx512) return static_cast<std::uint16_t>((1u << count) - 1);
#if defined(__AVX2__)
        else return detail::x86::lanes_below(count, T());
#endif
    }
    template <class F> static V lane_by_lane(V x, F const& f) {
        alignas(batch) T lane[size];
        x.value.store_aligned(lane);
        for (std::size_t k = 0; k < size; ++k) lane[k] = f(lane[k], k);
        return V(batch::load_aligned(lane));
    }
};
} // namespace gradstep::inline GRADSTEP_ISA
