#pragma once
#include <gradstep/engine/detail/dense_parameter.hpp>
#include <gradstep/saved/saved_state.hpp>

namespace gradstep::inline GRADSTEP_ISA {
template <class Updater> class parameter;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
// The state of a dense parameter, whose memory must stay where it is as long as this is used; and
// how it takes a saved one. Returns whether the rows that both have were loaded, and there are
// others (`fit`).
saved_state state_of_dense(dense_parameter const& x, char const* call);
bool load_dense(dense_parameter& x, saved_source const& from, bool resizes);

template <class Updater> struct state_access<parameter<Updater>> {
    static saved_state get(parameter<Updater> const& x, char const* call, row_progress&) {
        return state_of_dense(x.core(), call);
    }
    static bool load(parameter<Updater>& x, saved_source const& from, bool resizes) {
        return load_dense(x.core(), from, resizes);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/saved/parameter.ipp>
#endif
