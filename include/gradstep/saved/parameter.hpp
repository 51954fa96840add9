#pragma once
#include <gradstep/base/detail/sequence.hpp>
#include <gradstep/kernel/averaged_view.hpp>
#include <gradstep/policy/zero_gradient.hpp>
#include <gradstep/rows/row_progress.hpp>
#include <gradstep/saved/saved_state.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::inline GRADSTEP_ISA {
template <class Updater> class parameter;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
template <class Updater> struct state_access<parameter<Updater>> {
    // The memory must stay where it is as long as this is used; so must `at`, which receives the
    // progress of a table.
    static saved_state get(parameter<Updater> const& x, char const* call, row_progress&) {
        if (x.is_ascended()) refuse_ascended(call);
        saved_state out;
        saved_state_builder to(out);
        x.describe_state(to);
        out.name = "values";
        // What draws random numbers, or samples, does so by the name of the parameter.
        if constexpr (uses_id<Updater>) out.id = x.options().id;
        return out;
    }
    // Returns whether the rows that both have were loaded, and there are others (`fit`).
    static bool load(parameter<Updater>& x, saved_source const& from, bool resizes) {
        if (x.average_is_applied()) refuse_applied("load");
        row_progress none;
        saved_state own = get(x, "load", none);
        bool const resized = fit(from, own, resizes);
        read_into(from, own);
        x.resume(from.state().clock, from.state().id, values_to_load(own));
        return resized;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
