#pragma once
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/saved/saved_state.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// What any_parameter says of its state, and how it takes a saved one. With rows that catch up it is
// saved as a table.
template <> struct state_access<any_parameter> {
    // What rows that catch up have besides.
    struct saved_rows_state {
        resumed_history history;
        initial_values later; // of rows that are added
        std::vector<std::uint32_t> stamps;
    };
    static saved_state get(any_parameter const& x, char const* call, row_progress& at);
    // All that is checked before anything is written; `finish_load` then reads it into the state.
    struct pending_load {
        saved_state own;
        row_progress at = {};
        std::optional<saved_rows_state> rows = {};
        bool resized = false;
    };
    static pending_load begin_load(any_parameter& x, saved_source const& from, bool resizes);
    static void finish_load(any_parameter& x, saved_source const& from, pending_load&& pending);
    static bool load(any_parameter& x, saved_source const& from, bool resizes);

private:
    // The state, whose rows, if they catch up, stand at `at`.
    static saved_state state_at(any_parameter const& x, row_progress& at);
    // Turns the state of a tensor into the state of a table's rows.
    static void take_rows(saved_state& out, any_parameter const& x, row_progress& at);
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/detail/state.ipp>
#endif
