#pragma once
#include <gradstep/rows/row_progress.hpp>
#include <gradstep/saved/saved_state.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::inline GRADSTEP_ISA {
template <class Element, class Average, class Source, class Backend> class averager;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
// An average in memory of its own: slots alone, since the values are another's.
template <class Element, class Average, class Source, class Backend>
struct state_access<averager<Element, Average, Source, Backend>> {
    using type = averager<Element, Average, Source, Backend>;

    static saved_state get(type const& x, char const*, row_progress&) {
        saved_state out;
        saved_state_builder to(out);
        x.describe_state(to);
        out.name = "values";
        return out;
    }
    static bool load(type& x, saved_source const& from, bool) {
        row_progress none;
        saved_state const own = get(x, "load", none);
        require_same(from, own);
        read_into(from, own);
        x.resume(from.state().clock);
        return false;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
