#pragma once
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/describe.hpp>

namespace gradstep {

/// Several regularizers, applied left to right: `all_of{clip_value{1.0}, decoupled{0.01}}`. Nests.
template <class... Regularizers> struct all_of;

template <> struct all_of<> {
    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(step_info) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T>, V&, V&) {}
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T>, V&) {}
};

template <class First, class... Rest> struct all_of<First, Rest...> {
    First first;
    all_of<Rest...> rest;

    GRADSTEP_INLINE explicit constexpr all_of(First head, Rest... tail) : first(head), rest(tail...) {
        detail::require_regularizer<First>();
    }
    GRADSTEP_INLINE constexpr all_of(First head, all_of<Rest...> tail) requires(sizeof...(Rest) > 0)
        : first(head), rest(tail) {}

    template <class T> struct coeffs {
        typename First::template coeffs<T> first;
        typename all_of<Rest...>::template coeffs<T> rest;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {first.template prepare<T>(now), rest.template prepare<T>(now)};
    }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> c, V& w, V& g) {
        if constexpr (detail::acts_before<First>) First::before(c.first, w, g);
        all_of<Rest...>::before(c.rest, w, g);
    }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> c, V& w) {
        if constexpr (detail::acts_after<First>) First::after(c.first, w);
        all_of<Rest...>::after(c.rest, w);
    }

    // For core/members.hpp: the checks of every part.
    GRADSTEP_INLINE void check_all(double largest) const {
        detail::check(first, largest);
        if constexpr (sizeof...(Rest) != 0) rest.check_all(largest);
    }
    GRADSTEP_INLINE std::string description() const { return "all_of{" + items() + "}"; }
    GRADSTEP_INLINE std::string items() const {
        if constexpr (sizeof...(Rest) == 0) return describe(first);
        else return describe(first) + ", " + rest.items();
    }
};

template <class... Regularizers> all_of(Regularizers...) -> all_of<Regularizers...>;
template <class... Regularizers> all_of(all_of<Regularizers...>) -> all_of<all_of<Regularizers...>>; // not a copy

} // namespace gradstep
