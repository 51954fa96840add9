#pragma once
#include <gradstep/regularizers/all_of.hpp>
#include <gradstep/regularizers/none.hpp>

namespace gradstep {
/// Returns a regularizer without its decaying parts (`is_decay`): l1, l2, elastic_net, decoupled,
/// after_step, cautious_decay and proximal become `none`, clipping and clamping stay, `all_of`
/// keeps its other parts. A slice with `decay = false` uses the result: its bits and its cost are
/// the same as with an updater without decay.
template <class Regularizer> GRADSTEP_INLINE auto without_decay(Regularizer const& regularizer) {
    if constexpr (requires { requires Regularizer::is_decay; }) return none{};
    else if constexpr (requires { regularizer.without_decay(); }) return regularizer.without_decay(); // any_regularizer
    else return regularizer;
}
GRADSTEP_INLINE all_of<> without_decay(all_of<> const&) { return {}; }
template <class First, class... Rest> GRADSTEP_INLINE auto without_decay(all_of<First, Rest...> const& regularizer) {
    auto const first = without_decay(regularizer.first);
    auto const rest = without_decay(regularizer.rest);
    if constexpr (std::is_same_v<decltype(first), none const>) {
        return rest;
    } else {
        return [&]<class... Kept>(all_of<Kept...> const& kept) {
            using joined = all_of<std::remove_const_t<decltype(first)>, Kept...>;
            if constexpr (sizeof...(Kept) == 0) return joined(first);
            else return joined(first, kept);
        }(rest);
    }
}

template <class Regularizer>
using without_decay_t = std::remove_cvref_t<decltype(without_decay(std::declval<Regularizer const&>()))>;
} // namespace gradstep
