#pragma once
#include <gradstep/kernel/detail/row_wise.hpp>
#include <gradstep/policy/detail/slots.hpp>
#include <gradstep/rows/batch.hpp>
#include <gradstep/rows/detail/row_columns.hpp>

namespace gradstep {
/// The distance between rows of a table, in elements of each kind of memory. `state` is for the
/// slots as wide as the row and the master copy, `row_state` for the slots with one number per row,
/// and `stamps` for stamps and touches.
struct row_strides {
    std::size_t values = 0, state = 0, row_state = 0, stamps = 0;
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
// Pointers to the columns of a row, or of the first row of a page. For kernels.
template <class Updater> struct row_addresses {
    using rule = typename Updater::rule_type;
    using state_type = typename Updater::traits::state;

    typename Updater::traits::storage* weight;
    typename rule::template state<state_type*> state;
    row_state<rule, state_type*> row;
    state_type* master;
    std::uint32_t* last_step;                // null if no row can miss a step
    std::uint32_t* update_count;             // null unless bias corrections count updates
    std::uint64_t* key;                      // null if rows have numbers instead of keys
    std::uint32_t *last_touch, *touch_count; // null unless rows have keys, and the table keeps these

    // The columns of a table, and the addresses of a row in their order.
    static constexpr std::size_t columns = 1 + Updater::slots + columns_beside_state;
    GRADSTEP_HD static row_addresses of(std::byte* const* p) {
        constexpr std::size_t wide = slot_count<rule>, narrow = row_slot_count<rule>;
        std::byte* const* const beside = p + 1 + Updater::slots;
        row_addresses out;
        out.weight = reinterpret_cast<typename Updater::traits::storage*>(p[0]);
        each<wide>([&](auto i)
                       GRADSTEP_INLINE_LAMBDA { slot<i, rule>(out.state) = reinterpret_cast<state_type*>(p[1 + i]); });
        each<narrow>([&](auto i) GRADSTEP_INLINE_LAMBDA {
            nth<i, narrow>(out.row) = reinterpret_cast<state_type*>(p[1 + wide + i]);
        });
        out.master = nullptr;
        if constexpr (Updater::traits::has_master) out.master = reinterpret_cast<state_type*>(p[Updater::slots]);
        out.last_step = reinterpret_cast<std::uint32_t*>(beside[0]);
        out.update_count = reinterpret_cast<std::uint32_t*>(beside[1]);
        out.key = reinterpret_cast<std::uint64_t*>(beside[2]);
        out.last_touch = reinterpret_cast<std::uint32_t*>(beside[3]);
        out.touch_count = reinterpret_cast<std::uint32_t*>(beside[4]);
        return out;
    }
};

// Pointers to the rows of a table, for kernels: one page, or several pages of 2^shift rows, so that
// a table can grow without moving a row. Row slots, last steps and update counts have one element
// per row, all others `width`. Rows are `strides` apart.
template <class Updater> struct rows_at {
    using traits = typename Updater::traits;
    using rule = typename Updater::rule_type;
    using storage = typename traits::storage;
    using state_type = typename traits::state;

    std::size_t width;
    row_strides strides;
    row_addresses<Updater> only;       // used if `pages` is null
    std::byte* const* pages = nullptr; // row_place::pages
    std::uint32_t shift = 0;
    std::uint64_t mask = 0;

    // Pointers that a caller does not use cost nothing.
    GRADSTEP_HD row_addresses<Updater> at(std::uint64_t id) const {
        if (pages == nullptr) [[likely]]
            return moved(only, id);
        return moved(row_addresses<Updater>::of(pages + (id >> shift) * row_addresses<Updater>::columns), id & mask);
    }
    GRADSTEP_HD storage* weight_of(std::uint64_t id) const { return at(id).weight; }
    GRADSTEP_HD std::uint32_t& last_step_of(std::uint64_t id) const { return *at(id).last_step; }
    GRADSTEP_HD bool has_last_steps() const { return only.last_step != nullptr; }
    GRADSTEP_HD bool has_update_counts() const { return only.update_count != nullptr; }
    // The number from which the random bits of a row are computed.
    GRADSTEP_HD std::uint64_t name_of(std::uint64_t id) const { return only.key == nullptr ? id : *at(id).key; }

    // The pending steps of a row, up to the history's step.
    template <class View> GRADSTEP_HD typename View::missed missed_by(View const& history, std::uint64_t id) const {
        return missed_by(history, at(id));
    }
    template <class View>
    GRADSTEP_HD typename View::missed missed_by(View const& history, row_addresses<Updater> const& row) const {
        if (!has_last_steps()) return {};
        typename View::missed out = history.plan(*row.last_step);
        if constexpr (requires { out.row_before; }) {
            constexpr std::size_t count = row_slot_count<rule>;
            each<count>([&](auto i)
                            GRADSTEP_INLINE_LAMBDA { nth<i, count>(out.row_before) = *nth<i, count>(row.row); });
        }
        return out;
    }
    // Updates the row slots for the pending steps.
    template <class Missed> GRADSTEP_HD void catch_up_row_state(Missed const& missed, std::uint64_t id) const {
        constexpr std::size_t count = row_slot_count<rule>;
        if constexpr (count != 0) {
            auto const at = this->at(id).row;
            row_state<rule, state_type> values;
            each<count>([&](auto i) GRADSTEP_INLINE_LAMBDA { nth<i, count>(values) = *nth<i, count>(at); });
            missed.row(values);
            each<count>([&](auto i) GRADSTEP_INLINE_LAMBDA { *nth<i, count>(at) = nth<i, count>(values); });
        }
    }

    // Prefetches row `id`.
    GRADSTEP_INLINE void prefetch([[maybe_unused]] std::uint64_t id) const {
        auto const row = at(id);
        prefetch_lines(row.weight, width);
        host_each<slot_count<rule>>([&](auto i)
                                        GRADSTEP_INLINE_LAMBDA { prefetch_lines(slot<i, rule>(row.state), width); });
        host_each<row_slot_count<rule>>(
            [&](auto i) GRADSTEP_INLINE_LAMBDA { prefetch_lines(nth<i, row_slot_count<rule>>(row.row), 1); });
        if constexpr (traits::has_master) prefetch_lines(row.master, width);
    }
    GRADSTEP_INLINE void prefetch_last_step([[maybe_unused]] std::uint64_t id) const {
#if defined(__GNUC__)
        if (has_last_steps()) __builtin_prefetch(&last_step_of(id), 0, 2);
#endif
    }
    template <class S> static GRADSTEP_INLINE void prefetch_lines(S const* p, std::size_t n) {
        prefetch_memory(p, n * sizeof(S));
    }

private:
    GRADSTEP_HD row_addresses<Updater> moved(row_addresses<Updater> row, std::uint64_t rows) const {
        constexpr std::size_t row_slots = row_slot_count<rule>;
        row.weight += rows * strides.values;
        each<slot_count<rule>>([&](auto i)
                                   GRADSTEP_INLINE_LAMBDA { slot<i, rule>(row.state) += rows * strides.state; });
        each<row_slots>([&](auto i) GRADSTEP_INLINE_LAMBDA { nth<i, row_slots>(row.row) += rows * strides.row_state; });
        if constexpr (traits::has_master) row.master += rows * strides.state;
        if (row.last_step != nullptr) row.last_step += rows * strides.stamps;
        if (row.update_count != nullptr) row.update_count += rows * strides.stamps;
        if (row.key != nullptr) row.key += rows; // the table's own memory, which has no gaps
        if (row.last_touch != nullptr) row.last_touch += rows;
        if (row.touch_count != nullptr) row.touch_count += rows;
        return row;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
