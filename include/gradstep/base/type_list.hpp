#pragma once
#include <cstddef>

#include <gradstep/base/compiler.hpp>

namespace gradstep {
/// A list of types, from which one is chosen at run time.
template <class... T> struct type_list {
    static constexpr std::size_t size = sizeof...(T);
    /// A template over all of them: `as<std::variant>` contains one.
    template <template <class...> class Of> using as = Of<T...>;

    /// Calls `f.template operator()<Type>()` for each type, in order, until a call returns true.
    /// Returns whether one did.
    template <class F> GRADSTEP_HD static constexpr bool any(F const& f) { return (f.template operator()<T>() || ...); }
    /// The index of a type in the list; `size` if it is not in the list.
    template <class Wanted>
    static constexpr std::size_t index_of = [] {
        std::size_t i = 0;
        any([&]<class Each>() { return __is_same(Each, Wanted) || (++i, false); });
        return i;
    }();
};
} // namespace gradstep
