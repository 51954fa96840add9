#pragma once
#include <cstddef>

#include <gradstep/core/compiler.hpp>

namespace gradstep {

/// Types in an order: those that something chosen at run time may be.
template <class... T> struct type_list {
    static constexpr std::size_t size = sizeof...(T);
    /// A template of all of them: `as<std::variant>` holds one.
    template <template <class...> class Of> using as = Of<T...>;

    /// Calls `f.template operator()<Type>()` for each, in order, until one call returns true; whether one has.
    template <class F> GRADSTEP_HD static constexpr bool any(F const& f) { return (f.template operator()<T>() || ...); }
    /// The place of a type in the list; `size` where it is not in it.
    template <class Wanted>
    static constexpr std::size_t index_of = [] {
        std::size_t i = 0;
        any([&]<class Each>() { return __is_same(Each, Wanted) || (++i, false); });
        return i;
    }();
};

} // namespace gradstep
