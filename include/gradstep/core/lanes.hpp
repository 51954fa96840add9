#pragma once
#include <cstddef>

#include <gradstep/core/pack.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// A pack of N scalars in portable C++: on a GPU one thread's aligned group of elements, moved by one wide load or
/// store. Memory must be aligned to the group.
template <class T, std::size_t N> struct lanes {
    T value[N];

    lanes() = default;
    GRADSTEP_HD lanes(T x) {
        for (std::size_t k = 0; k < N; ++k) value[k] = x;
    }

    struct mask {
        bool value[N];
        friend GRADSTEP_HD mask operator&(mask a, mask b) { return join(a, b, [](bool x, bool y) { return x && y; }); }
        friend GRADSTEP_HD mask operator|(mask a, mask b) { return join(a, b, [](bool x, bool y) { return x || y; }); }
        friend GRADSTEP_HD mask operator!(mask a) { return join(a, a, [](bool x, bool) { return !x; }); }

    private:
        template <class F> GRADSTEP_HD static mask join(mask const& a, mask const& b, F f) {
            mask out;
            for (std::size_t k = 0; k < N; ++k) out.value[k] = f(a.value[k], b.value[k]);
            return out;
        }
    };

    // Calls f(k) for every lane and gathers the results.
    template <class Out = lanes, class F> GRADSTEP_HD static Out each(F f) {
        Out out;
        for (std::size_t k = 0; k < N; ++k) out.value[k] = f(k);
        return out;
    }

    friend GRADSTEP_HD lanes operator+(lanes const& a, lanes const& b) {
        return each([&](std::size_t k) { return a.value[k] + b.value[k]; });
    }
    friend GRADSTEP_HD lanes operator-(lanes const& a, lanes const& b) {
        return each([&](std::size_t k) { return a.value[k] - b.value[k]; });
    }
    friend GRADSTEP_HD lanes operator*(lanes const& a, lanes const& b) {
        return each([&](std::size_t k) { return a.value[k] * b.value[k]; });
    }
    friend GRADSTEP_HD lanes operator-(lanes const& a) {
        return each([&](std::size_t k) { return -a.value[k]; });
    }
    friend GRADSTEP_HD mask operator<(lanes const& a, lanes const& b) {
        return each<mask>([&](std::size_t k) { return a.value[k] < b.value[k]; });
    }
    friend GRADSTEP_HD mask operator<=(lanes const& a, lanes const& b) {
        return each<mask>([&](std::size_t k) { return a.value[k] <= b.value[k]; });
    }
    friend GRADSTEP_HD mask operator>(lanes const& a, lanes const& b) { return b < a; }
    friend GRADSTEP_HD mask operator>=(lanes const& a, lanes const& b) { return b <= a; }
    friend GRADSTEP_HD mask operator==(lanes const& a, lanes const& b) {
        return each<mask>([&](std::size_t k) { return a.value[k] == b.value[k]; });
    }
};

template <class T, std::size_t N> struct pack_traits<lanes<T, N>> {
    using V = lanes<T, N>;
    using one = pack_traits<T>;
    using value_type = T;
    static constexpr std::size_t size = N;
    template <class S> static constexpr bool can_mask = false;

    template <class S> struct alignas(sizeof(S) * N) group {
        S value[N];
    };
    template <class S> GRADSTEP_HD static V load(S const* p, all_lanes) {
        group<S> const stored = *reinterpret_cast<group<S> const*>(p);
        return V::each([&](std::size_t k) { return one::load(stored.value + k, all_lanes{}); });
    }
    template <class S> GRADSTEP_HD static void store(S* p, V const& x, all_lanes) {
        group<S> stored;
        for (std::size_t k = 0; k < N; ++k) one::store(stored.value + k, x.value[k], all_lanes{});
        *reinterpret_cast<group<S>*>(p) = stored;
    }

    GRADSTEP_HD static V fma(V const& a, V const& b, V const& c) {
        return V::each([&](std::size_t k) { return one::fma(a.value[k], b.value[k], c.value[k]); });
    }
    GRADSTEP_HD static V fnma(V const& a, V const& b, V const& c) {
        return V::each([&](std::size_t k) { return one::fnma(a.value[k], b.value[k], c.value[k]); });
    }
    GRADSTEP_HD static V div(V const& a, V const& b) {
        return V::each([&](std::size_t k) { return one::div(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V sqrt(V const& a) {
        return V::each([&](std::size_t k) { return one::sqrt(a.value[k]); });
    }
    GRADSTEP_HD static V abs(V const& a) {
        return V::each([&](std::size_t k) { return one::abs(a.value[k]); });
    }
    GRADSTEP_HD static V copysign(V const& a, V const& b) {
        return V::each([&](std::size_t k) { return one::copysign(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V multiply_sign(V const& a, V const& b) {
        return V::each([&](std::size_t k) { return one::multiply_sign(a.value[k], b.value[k]); });
    }
    GRADSTEP_HD static V select(typename V::mask const& m, V const& a, V const& b) {
        return V::each([&](std::size_t k) { return m.value[k] ? a.value[k] : b.value[k]; });
    }
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
