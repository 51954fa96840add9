#pragma once
#include <gradstep/number/pack.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A pack that consists of N packs of one type side by side, in portable C++.
///
/// With scalars it is the group of elements of one GPU thread, which one wide load or store moves.
/// Memory must then be aligned to the group. With vector packs it is a loop body that converts
/// several packs at once.
template <class One, std::size_t N> struct lanes {
    One value[N];

    lanes() = default;
    GRADSTEP_HD lanes(typename pack_traits<One>::value_type x) {
        for (std::size_t k = 0; k < N; ++k) value[k] = One(x);
    }

    /// Calls f(k) for every pack and gathers the results.
    template <class Out = lanes, class F> GRADSTEP_HD static Out each(F f) {
        Out out;
        if constexpr (N == 2) { // without a variable index, which would keep sums of pairs in memory
            out.value[0] = f(0);
            out.value[1] = f(1);
        } else {
            for (std::size_t k = 0; k < N; ++k) out.value[k] = f(k);
        }
        return out;
    }

    /// The result of a comparison, lane by lane.
    struct mask {
        decltype(One() < One()) value[N];
        friend GRADSTEP_HD mask operator&(mask const& a, mask const& b) {
            return each<mask>([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] & b.value[k]; });
        }
        friend GRADSTEP_HD mask operator|(mask const& a, mask const& b) {
            return each<mask>([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] | b.value[k]; });
        }
        friend GRADSTEP_HD mask operator!(mask const& a) {
            return each<mask>([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return !a.value[k]; });
        }
    };

    friend GRADSTEP_HD lanes operator+(lanes const& a, lanes const& b) {
        return each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] + b.value[k]; });
    }
    friend GRADSTEP_HD lanes operator-(lanes const& a, lanes const& b) {
        return each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] - b.value[k]; });
    }
    friend GRADSTEP_HD lanes operator*(lanes const& a, lanes const& b) {
        return each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] * b.value[k]; });
    }
    friend GRADSTEP_HD lanes operator-(lanes const& a) {
        return each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return -a.value[k]; });
    }
    friend GRADSTEP_HD mask operator<(lanes const& a, lanes const& b) {
        return each<mask>([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] < b.value[k]; });
    }
    friend GRADSTEP_HD mask operator<=(lanes const& a, lanes const& b) {
        return each<mask>([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] <= b.value[k]; });
    }
    friend GRADSTEP_HD mask operator>(lanes const& a, lanes const& b) { return b < a; }
    friend GRADSTEP_HD mask operator>=(lanes const& a, lanes const& b) { return b <= a; }
    friend GRADSTEP_HD mask operator==(lanes const& a, lanes const& b) {
        return each<mask>([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] == b.value[k]; });
    }
    friend GRADSTEP_HD mask operator!=(lanes const& a, lanes const& b) {
        return each<mask>([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return a.value[k] != b.value[k]; });
    }
};

template <class One, std::size_t N> struct pack_traits<lanes<One, N>> {
    using V = lanes<One, N>;
    using one = pack_traits<One>;
    using value_type = typename one::value_type;
    static constexpr std::size_t size = N * one::size;
    template <class S> static constexpr bool can_mask = false;
    template <class S> using body = lanes<One, N>; // not V: nvcc would then write V as body<S> everywhere

    /// The pack of the same elements in double. `to_wide` converts to it.
    using wide = lanes<typename one::wide, N>;
    GRADSTEP_HD static wide to_wide(V const& a) {
        return wide::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::to_wide(a.value[k]); });
    }

    template <class S> struct alignas(sizeof(S) * N) group { S value[N]; };
    template <class S> GRADSTEP_HD static V load(S const* p, all_lanes) {
        if constexpr (one::size == 1) {
            group<S> const stored = *reinterpret_cast<group<S> const*>(p);
            return V::each([&](std::size_t k)
                               GRADSTEP_INLINE_LAMBDA { return one::load(stored.value + k, all_lanes{}); });
        } else if constexpr (N == 2 && requires(One & x) { one::load_two(p, x, x); }) {
            V x;
            one::load_two(p, x.value[0], x.value[1]);
            return x;
        } else {
            return V::each([&](std::size_t k)
                               GRADSTEP_INLINE_LAMBDA { return one::load(p + k * one::size, all_lanes{}); });
        }
    }
    template <class S> GRADSTEP_HD static void store(S* p, V const& x, all_lanes) {
        if constexpr (one::size == 1) {
            group<S> stored;
            for (std::size_t k = 0; k < N; ++k) one::store(stored.value + k, x.value[k], all_lanes{});
            *reinterpret_cast<group<S>*>(p) = stored;
        } else if constexpr (N == 2 && requires(One const& y) { one::store_two(p, y, y); }) {
            one::store_two(p, x.value[0], x.value[1]);
        } else {
            for (std::size_t k = 0; k < N; ++k) one::store(p + k * one::size, x.value[k], all_lanes{});
        }
    }

    template <class S> GRADSTEP_HD static V trained(V const& master, V const& stored) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA {
            return one::template trained<S>(master.value[k], stored.value[k]);
        });
    }

    GRADSTEP_HD static V fma(V const& a, V const& b, V const& c) {
        return V::each([&](std::size_t k)
                           GRADSTEP_INLINE_LAMBDA { return one::fma(a.value[k], b.value[k], c.value[k]); });
    }
    GRADSTEP_HD static V fnma(V const& a, V const& b, V const& c) {
        return V::each([&](std::size_t k)
                           GRADSTEP_INLINE_LAMBDA { return one::fnma(a.value[k], b.value[k], c.value[k]); });
    }
    GRADSTEP_HD static V mul(V const& a, V const& b) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::mul(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V div(V const& a, V const& b) {
        if constexpr (N == 2 && requires(One & x) { one::div_two(x, x, x, x, x, x); }) {
            V x;
            one::div_two(a.value[0], b.value[0], a.value[1], b.value[1], x.value[0], x.value[1]);
            return x;
        } else return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::div(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V sqrt(V const& a) {
        if constexpr (N == 2 && requires(One & x) { one::sqrt_two(x, x, x, x); }) {
            V x;
            one::sqrt_two(a.value[0], a.value[1], x.value[0], x.value[1]);
            return x;
        } else return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::sqrt(a.value[k]); });
    }
    GRADSTEP_HD static V pow(V const& a, V const& b) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::pow(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V cbrt_estimate(V const& a) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::cbrt_estimate(a.value[k]); });
    }
    template <class Words>
    GRADSTEP_HD static V drop_bits(V const& x, std::uint32_t dropped, Words const& words, std::uint64_t i) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA {
            return one::drop_bits(x.value[k], dropped, words, i + k * one::size);
        });
    }
    template <class Words> GRADSTEP_HD static V signed_word(Words const& words, std::uint64_t i) {
        return V::each([&](std::size_t k)
                           GRADSTEP_INLINE_LAMBDA { return one::signed_word(words, i + k * one::size); });
    }
    GRADSTEP_HD static V significand(V const& a) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::significand(a.value[k]); });
    }
    GRADSTEP_HD static V exponent(V const& a) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::exponent(a.value[k]); });
    }
    GRADSTEP_HD static V abs(V const& a) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::abs(a.value[k]); });
    }
    GRADSTEP_HD static V copysign(V const& a, V const& b) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::copysign(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V multiply_sign(V const& a, V const& b) {
        return V::each([&](std::size_t k)
                           GRADSTEP_INLINE_LAMBDA { return one::multiply_sign(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V min(V const& a, V const& b) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::min(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V max(V const& a, V const& b) {
        return V::each([&](std::size_t k) GRADSTEP_INLINE_LAMBDA { return one::max(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static bool all(typename V::mask const& m) {
        bool every = true;
        for (std::size_t k = 0; k < N; ++k) every = every && one::all(m.value[k]);
        return every;
    }
    GRADSTEP_HD static V select(typename V::mask const& m, V const& a, V const& b) {
        return V::each([&](std::size_t k)
                           GRADSTEP_INLINE_LAMBDA { return one::select(m.value[k], a.value[k], b.value[k]); });
    }
};
} // namespace gradstep::inline GRADSTEP_ISA
