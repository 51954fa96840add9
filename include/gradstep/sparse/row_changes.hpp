#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/sparse/row_progress.hpp>

namespace gradstep {

/// What goes along with the values of rows that are copied from one keyed_table to another.
enum class row_content {
    values, ///< nothing: for replicas that serve reads; there a row's state begins anew
    state,  ///< what training goes on from: the rule's state, the master copy, touches, ages
};

/// Rows of a keyed_table on their way to another one: those that were touched, and those that were evicted, since a step of its
/// clock. Made by `keyed_table::changed_since`, taken in by `keyed_table::apply`. There is no call that makes bytes of them: to
/// another process send every member, `progress` and its history included.
template <class Updater> struct row_changes {
    /// The types of a value and of an element of the state in memory, `storage` and `state_type`.
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;

    /// The changes of the steps from `since` on (0: all rows there are), as the table was after step `until`.
    std::int64_t since = 0, until = 0;
    std::size_t width = 0;
    row_content content = row_content::values;
    /// Rows that are gone; one of them may have come anew, and is then among `keys` as well.
    std::vector<std::uint64_t> evicted;
    /// Rows that are there, with their values after `until`, row by row.
    std::vector<std::uint64_t> keys;
    std::vector<storage> values;
    /// With row_content::state: the slots of the rule in its order, the master copy last; those of which a row has one are as
    /// long as `keys`. With row_steps the touches of each row; the low half of the step that last named it, and, where that is
    /// kept, how many did. What admission has counted of keys that have no row is not among it.
    std::array<std::vector<state_type>, Updater::slots> state = {};
    std::vector<std::uint32_t> touches, last_touches, touch_counts;
    /// Where the table stood, and what the steps did to rows that they did not touch: the whole history, however few steps the
    /// changes are of.
    row_progress progress;
};

} // namespace gradstep
