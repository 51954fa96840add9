#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <gradstep/core/row_wise.hpp>
#include <gradstep/core/sweep.hpp>
#include <gradstep/sparse/aggregate.hpp>
#include <gradstep/sparse/history.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// How many rows before its turn a row is fetched: 1.3 to 1.6 times faster for rows of 64 floats than without, and no better
// with more.
inline constexpr std::size_t rows_ahead = 8;

// Where the rows of a table lie: raw pointers, for kernels. Slots of which a row has one, stamps and touches have one
// element a row, all others `width`.
template <class Updater> struct rows_at {
    using traits = typename Updater::traits;
    using rule = typename Updater::rule_type;
    using storage = typename traits::storage;
    using state_type = typename traits::state;

    std::size_t width;
    storage* weight;
    typename rule::template state<state_type*> state;
    row_state<rule, state_type*> row;
    state_type* master;
    std::uint32_t* stamps;  // null where nothing is ever missed
    std::uint32_t* touches; // null unless bias corrections count touches

    GRADSTEP_HD auto state_of(std::uint64_t id) const {
        auto out = state;
        each<slot_count<rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA { slot<i, rule>(out) += id * width; });
        return out;
    }
    GRADSTEP_HD auto row_of(std::uint64_t id) const {
        constexpr std::size_t count = row_slot_count<rule>;
        auto out = row;
        each<count>([&](auto i) GRADSTEP_INLINE_LAMBDA { nth<i, count>(out) += id; });
        return out;
    }
    GRADSTEP_HD state_type* master_of(std::uint64_t id) const {
        return master == nullptr ? nullptr : master + id * width;
    }

    // What row `id` missed up to the history's step.
    template <class View> GRADSTEP_HD typename View::missed missed_by(View const& history, std::uint64_t id) const {
        if (stamps == nullptr) return {};
        typename View::missed out = history.plan(stamps[id]);
        if constexpr (requires { out.row_before; }) {
            constexpr std::size_t count = row_slot_count<rule>;
            auto const at = row_of(id);
            each<count>([&](auto i) GRADSTEP_INLINE_LAMBDA { nth<i, count>(out.row_before) = *nth<i, count>(at); });
        }
        return out;
    }
    // Catches up the slots of which the row has one.
    template <class Missed> GRADSTEP_HD void catch_up_row_state(Missed const& missed, std::uint64_t id) const {
        constexpr std::size_t count = row_slot_count<rule>;
        if constexpr (count != 0) {
            auto const at = row_of(id);
            row_state<rule, state_type> values;
            each<count>([&](auto i) GRADSTEP_INLINE_LAMBDA { nth<i, count>(values) = *nth<i, count>(at); });
            missed.row(values);
            each<count>([&](auto i) GRADSTEP_INLINE_LAMBDA { *nth<i, count>(at) = nth<i, count>(values); });
        }
    }

    // Begins to fetch row `id`. The rows of a batch are at random places, which no hardware foresees; of long rows the
    // first lines are enough for it to see where they go on. For reading and into the second level: what asks for a line to
    // write it waits for all other owners, which costs more than it saves (123 against 78 ns a row of 64 floats).
    GRADSTEP_INLINE void prefetch([[maybe_unused]] std::uint64_t id) const {
        prefetch_lines(weight + id * width, width);
        host_each<slot_count<rule>>(
            [&](auto i) GRADSTEP_INLINE_LAMBDA { prefetch_lines(slot<i, rule>(state) + id * width, width); });
        host_each<row_slot_count<rule>>(
            [&](auto i) GRADSTEP_INLINE_LAMBDA { prefetch_lines(nth<i, row_slot_count<rule>>(row) + id, 1); });
        if constexpr (traits::has_master) prefetch_lines(master + id * width, width);
    }
    GRADSTEP_INLINE void prefetch_stamp([[maybe_unused]] std::uint64_t id) const {
#if defined(__GNUC__)
        if (stamps != nullptr) __builtin_prefetch(stamps + id, 0, 2);
#endif
    }
    template <class S> static GRADSTEP_INLINE void prefetch_lines([[maybe_unused]] S const* p, std::size_t n) {
#if defined(__GNUC__)
        constexpr std::size_t line = 64, most = 16 * line;
        auto const* const bytes = reinterpret_cast<char const*>(p);
        std::size_t const size = std::min(n * sizeof(S), most);
        for (std::size_t b = 0; b < size; b += line) __builtin_prefetch(bytes + b, 0, 2);
#endif
    }
};

// Catching up alone: reads row `id`, writes what it is after the missed steps to `weight`, and the state in place unless
// `out_of_place` (a copy for a reader).
template <class Updater, class Missed, bool out_of_place> struct catch_up_kernel {
    using rule_type = typename Updater::rule_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using gradient_type = void;
    using slots = std::make_index_sequence<slot_count<rule_type>>;
    using source_type = std::conditional_t<traits::has_master, typename traits::state, storage>;

    storage* weight;
    source_type const* source;
    typename rule_type::template state<typename traits::state*> state;
    typename traits::state* master;
    Missed missed;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V w = io::load(source + i, which);
        typename rule_type::template state<V> s;
        constexpr bool writes_state = Missed::moves_state && !out_of_place;
        if constexpr (Missed::reads_state || writes_state) load_slots<rule_type, V>(state, s, i, which, slots{});
        if (missed.any()) missed(w, s);
        io::store(weight + i, w, which);
        if constexpr (!out_of_place) {
            if constexpr (traits::has_master) io::store(master + i, w, which);
            if constexpr (writes_state) store_slots<rule_type, V>(state, s, i, which, slots{});
        }
    }
};

// Rows that catch up on the steps before the history's: in place, or as copies.
template <class Updater, class View> struct row_catch_up {
    using missed = typename View::missed;
    using storage = typename Updater::traits::storage;
    using compute = typename Updater::traits::compute;

    rows_at<Updater> rows;
    View history;
    std::uint32_t now;
    std::uint32_t spares = 0; // a row that missed no more steps than so many

    template <bool out_of_place>
    GRADSTEP_HD catch_up_kernel<Updater, missed, out_of_place> kernel(std::uint64_t id, missed const& m,
                                                                      storage* to) const {
        if constexpr (Updater::traits::has_master)
            return {to, rows.master_of(id), rows.state_of(id), rows.master_of(id), m};
        else return {to, rows.weight + id * rows.width, rows.state_of(id), nullptr, m};
    }
    // What row `id` has to catch up on.
    GRADSTEP_HD missed missed_by(std::uint64_t id) const {
        if (rows.stamps == nullptr || now - rows.stamps[id] <= spares) return {};
        return rows.missed_by(history, id);
    }
    // The same. From here on it has no more to catch up on.
    GRADSTEP_INLINE missed plan(std::uint64_t id) const {
        missed const out = missed_by(id);
        if (out.any()) rows.stamps[id] = now;
        return out;
    }
    // Row `id` in place, by the packs V.
    template <pack V> GRADSTEP_INLINE void catch_up(std::uint64_t id) const {
        missed const m = plan(id);
        if (m.any()) apply<V>(id, m);
    }
    template <pack V> GRADSTEP_INLINE void apply(std::uint64_t id, missed const& m) const {
        sweep<V>(kernel<false>(id, m, rows.weight + id * rows.width), 0, rows.width);
        rows.catch_up_row_state(m, id);
    }
    template <pack V> GRADSTEP_INLINE void read(std::uint64_t id, storage* out) const {
        read<V>(id, missed_by(id), out);
    }
    template <pack V> GRADSTEP_INLINE void read(std::uint64_t id, missed const& m, storage* out) const {
        sweep<V>(kernel<true>(id, m, out), 0, rows.width);
    }
};

// One step of the rows of a batch.
template <class Updater, class View, class Id> struct row_update {
    using element = typename Updater::element_type;
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using missed = typename View::missed;
    template <class Gradient> using kernel = update_kernel<element, rule_type, regularizer_type, Gradient, missed>;

    rows_at<Updater> rows;
    batch_rows<Id> batch;
    storage const* gradients;
    compute scale; // of every gradient
    bool mean;     // of duplicates, instead of their sum
    typename rule_type::template coeffs<compute> rule;
    typename regularizer_type::template coeffs<compute> regularizer;
    View history;
    std::uint32_t stamp; // of this step
    double rate;
    rule_type const* policy; // where every row has bias corrections of its own
    [[no_unique_address]] rounding_of<element> rounding = {};

    GRADSTEP_HD std::uint64_t id(std::size_t r) const { return static_cast<std::uint64_t>(batch.ids[r]); }
    GRADSTEP_HD std::size_t first_source(std::size_t r) const { return batch.begin == nullptr ? r : batch.begin[r]; }
    GRADSTEP_HD std::size_t source_count(std::size_t r) const {
        return batch.begin == nullptr ? 1 : batch.begin[r + 1] - batch.begin[r];
    }
    GRADSTEP_HD storage const* gradient(std::size_t j) const {
        return gradients + (batch.sources == nullptr ? j : batch.sources[j]) * rows.width;
    }

    // What row r of the batch missed. From here on it has no more to catch up.
    GRADSTEP_HD missed plan(std::size_t r) const {
        missed const out = rows.missed_by(history, id(r));
        if (rows.stamps != nullptr) rows.stamps[id(r)] = stamp;
        return out;
    }

    // The gradient of one element of row r: of several, the sum in batch order.
    template <pack V, class Which> GRADSTEP_HD V gradient_at(std::size_t r, std::size_t i, Which which) const {
        std::size_t const first = first_source(r), count = source_count(r);
        V g = pack_traits<V>::load(gradient(first) + i, which);
        for (std::size_t k = 1; k < count; ++k) g = g + pack_traits<V>::load(gradient(first + k) + i, which);
        return finish(g, count);
    }
    template <pack V> GRADSTEP_HD V finish(V sum, std::size_t count) const {
        if (mean && count > 1) sum = math::div(sum, V(compute(count)));
        return scale == compute(1) ? sum : math::mul(V(scale), sum);
    }

    // Begins to fetch row r and its first gradient.
    GRADSTEP_INLINE void prefetch(std::size_t r) const {
        rows.prefetch(id(r));
        rows.prefetch_lines(gradient(first_source(r)), rows.width);
    }
    GRADSTEP_INLINE void prefetch_stamp(std::size_t r) const { rows.prefetch_stamp(id(r)); }

    // Updates row r; `staged` has room for a row.
    template <pack V> GRADSTEP_INLINE void run(std::size_t r, missed const& m, compute* staged) const {
        if (source_count(r) == 1 && scale == compute(1)) {
            run_kernel<V>(r, make_kernel(r, m, plain_gradient<storage>{gradient(first_source(r))}));
        } else {
            stage<V>(r, staged);
            run_kernel<V>(r, make_kernel(r, m, plain_gradient<compute>{staged}));
        }
    }

    template <class Gradient>
    GRADSTEP_HD kernel<Gradient> make_kernel(std::size_t r, missed const& m, Gradient g) const {
        std::uint64_t const row = id(r);
        kernel<Gradient> out{
            rule, regularizer, rows.weight + row * rows.width, g, rows.state_of(row), rows.master_of(row), m};
        if constexpr (traits::is_stochastic) out.rounding = rounding.from(row * rows.width);
        return out;
    }

private:
    template <pack V, class Kernel> GRADSTEP_INLINE void run_kernel(std::size_t r, Kernel k) const {
        if (rows.touches != nullptr) {
            std::uint32_t& touches = rows.touches[id(r)];
            touches += touches != std::numeric_limits<std::uint32_t>::max();
            k.rule = policy->template prepare<compute>(step_info{touches, rate});
        }
        if constexpr (row_wise_rule<rule_type>) {
            rows.catch_up_row_state(k.missed, id(r));
            settle(k, block_sums<Kernel>::template of_all<V>(k, rows.width), rows.width, rows.row_of(id(r)));
        }
        sweep<V>(k, 0, rows.width);
    }

    // The gradient of row r, in the compute type. A column of packs is summed over all gradients before the next one, in
    // registers.
    template <pack V> GRADSTEP_INLINE void stage(std::size_t r, compute* staged) const {
        constexpr std::size_t lanes = pack_traits<V>::size, columns = 4;
        std::size_t const first = first_source(r), count = source_count(r), width = rows.width;
        std::size_t i = 0;
        for (; i + columns * lanes <= width; i += columns * lanes) {
            V sum[columns];
            for (std::size_t c = 0; c < columns; ++c)
                sum[c] = pack_traits<V>::load(gradient(first) + i + c * lanes, all_lanes{});
            for (std::size_t k = 1; k < count; ++k) {
                storage const* const g = gradient(first + k) + i;
                for (std::size_t c = 0; c < columns; ++c)
                    sum[c] = sum[c] + pack_traits<V>::load(g + c * lanes, all_lanes{});
            }
            for (std::size_t c = 0; c < columns; ++c)
                pack_traits<V>::store(staged + i + c * lanes, finish(sum[c], count), all_lanes{});
        }
        for (; i + lanes <= width; i += lanes)
            pack_traits<V>::store(staged + i, gradient_at<V>(r, i, all_lanes{}), all_lanes{});
        for (; i < width; ++i) staged[i] = gradient_at<compute>(r, i, all_lanes{});
    }
};

// Updates rows [first, last) of a batch. What rows missed is found for several at a time, so that their exponentials
// overlap, and every row is fetched while the ones before it are updated.
template <pack V, class Update>
GRADSTEP_INLINE void run_rows(Update const& shared, std::size_t first, std::size_t last,
                              typename Update::compute* staged) {
    constexpr std::size_t ahead = rows_ahead;
    Update const update = shared; // by value: its scalars stay in registers
    for (std::size_t r = first; r < std::min(first + ahead, last); ++r) update.prefetch_stamp(r);
    for (std::size_t r = first; r < std::min(first + ahead, last); ++r) update.prefetch(r);
    for (std::size_t r = first; r < last; r += ahead) {
        std::size_t const count = std::min(ahead, last - r);
        for (std::size_t k = r + ahead; k < std::min(r + 2 * ahead, last); ++k) update.prefetch_stamp(k);
        typename Update::missed missed[ahead];
        for (std::size_t k = 0; k < count; ++k) missed[k] = update.plan(r + k);
        for (std::size_t k = 0; k < count; ++k) {
            if (r + k + ahead < last) update.prefetch(r + k + ahead);
            update.template run<V>(r + k, missed[k], staged);
        }
    }
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
