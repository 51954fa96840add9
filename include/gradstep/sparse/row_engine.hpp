#pragma once
#include <cstdint>
#include <limits>

#include <gradstep/core/kernel.hpp>
#include <gradstep/sparse/host_rows.hpp>
#include <gradstep/sparse/row_kernels.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// The class that runs rows on a backend: host_rows, or the class that the backend names.
template <class Updater> struct row_engine_of { using type = host_rows<Updater>; };
template <class Updater>
requires(requires { typename Updater::backend_type::template row_engine<Updater>; }) struct row_engine_of<Updater> {
    using type = typename Updater::backend_type::template row_engine<Updater>;
};

// Whether all slots of a rule are zero at step 0 for any weight. Passes NaN as the weight, which
// shows in slots that depend on it.
template <class T, class Rule> bool begins_at_zero(Rule const& rule) {
    bool zero = true;
    auto const first = initial_state<Rule>(rule, std::numeric_limits<T>::quiet_NaN());
    host_each<slot_count<Rule>>([&](auto i) { zero = zero && slot<i, Rule>(first) == 0; });
    auto const of_row = initial_row_state<T>(rule);
    host_each<row_slot_count<Rule>>([&](auto i) { zero = zero && nth<i, row_slot_count<Rule>>(of_row) == 0; });
    return zero;
}

// A step of a table that is prepared (row_updater::begin) but not run yet.
template <class Updater, class View, class Id> struct begun_step {
    std::uint64_t first_due, last_due;      // these rows are caught up
    row_catch_up<Updater, View> due;        // to the step before, by this;
    row_update<Updater, View, Id> of_batch; // then the rows of the batch are updated
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
