#pragma once
#include <gradstep/parameter.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The parameter that owns its memory for an updater: parameter<Updater>, or what an updater names
// (any_updater).
template <class Updater> struct parameter_of_updater { using type = parameter<Updater>; };
template <class Updater>
requires(requires { typename Updater::parameter_type; }) struct parameter_of_updater<Updater> {
    using type = typename Updater::parameter_type;
};
template <class Updater> using parameter_of = typename parameter_of_updater<Updater>::type;
} // namespace gradstep::detail::inline GRADSTEP_ABI
