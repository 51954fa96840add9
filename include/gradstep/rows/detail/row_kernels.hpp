#pragma once
#include <gradstep/kernel/averaged_view.hpp>
#include <gradstep/rows/detail/history.hpp>
#include <gradstep/rows/detail/table_kernels.hpp>
#include <gradstep/rows/row_addresses.hpp>
#include <gradstep/schedules/external.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Rows before their first step: sets state, last steps and update counts, and the master copy from
// the values.
template <class Updater> struct row_begin {
    using element = typename Updater::element_type;
    using compute = typename Updater::traits::compute;
    using rule_type = decltype(arriving<compute>(std::declval<typename Updater::rule_type const&>(), 0));

    rows_at<Updater> rows;
    rule_type rule;
    std::uint32_t last_step;
    bool state; // otherwise the state is already set

    GRADSTEP_HD initialize_kernel<element, rule_type> kernel(row_addresses<Updater> const& row) const {
        return {rule, row.weight, row.state, row.master};
    }
    // The row slots.
    GRADSTEP_HD void begin_row(row_addresses<Updater> const& row) const {
        if constexpr (row_slot_count<rule_type> != 0)
            if (state) initialize_row_kernel<element, rule_type>{rule, row.row}.template at<compute>(0, all_lanes{});
        if (rows.has_last_steps()) *row.last_step = last_step;
        if (rows.has_update_counts()) *row.update_count = 0;
    }
    // Row `id`, with packs V.
    template <pack V> GRADSTEP_INLINE void begin(std::uint64_t id) const {
        auto const row = rows.at(id);
        if (state) sweep<V>(kernel(row), 0, rows.width);
        begin_row(row);
    }
};

// For reads of the rows themselves instead of their averages.
struct no_average_reading {};
// How to read the averages of a rule's weights (`averaged`) after the steps so far.
template <class Rule, class T> struct average_reading { typename Rule::template reading<T> scalars; };

// Catches up one row: reads row `id`, writes the weight after the pending steps to `weight`, and
// the state in place unless `out_of_place` (a copy for a reader). With a reading, it writes the
// row's average.
template <class Updater, class Missed, bool out_of_place, class Out = typename Updater::traits::storage,
          class Reading = no_average_reading>
struct catch_up_kernel {
    using rule_type = typename Updater::rule_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using gradient_type = void;
    using slots = std::make_index_sequence<slot_count<rule_type>>;
    static constexpr bool reads_average = !std::is_same_v<Reading, no_average_reading>;
    static_assert(out_of_place || (std::is_same_v<Out, storage> && !reads_average));

    Out* weight;
    storage const* stored; // the row itself
    typename rule_type::template state<typename traits::state*> state;
    typename traits::state* master;
    Missed missed;
    GRADSTEP_NO_UNIQUE_ADDRESS Reading reading = {};
    // A copy of a row without pending steps is a copy of the weight itself: with a master copy, the
    // master would be read otherwise.
    static constexpr bool copies_weight = traits::has_master && out_of_place && !reads_average;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        if constexpr (copies_weight)
            if (!missed.any()) return io::store(weight + i, io::load(stored + i, which), which);
        V w = load_trained<traits, V>(stored, master, i, which);
        typename rule_type::template state<V> s;
        constexpr bool writes_state = Missed::moves_state && !out_of_place;
        if constexpr (Missed::reads_state || writes_state || reads_average)
            load_slots<rule_type, V, true>(state, s, i, which, slots{});
        if (missed.any()) missed(w, s);
        if constexpr (reads_average) w = rule_type::average_of(reading.scalars, w, s);
        io::store(weight + i, w, which);
        if constexpr (!out_of_place) {
            if constexpr (traits::has_master) io::store(master + i, w, which);
            if constexpr (writes_state) store_slots<rule_type, V, true>(state, s, i, which, slots{});
        }
    }
};

// Rows that catch up on all steps before the history's: in place, or as copies. With a reading, as
// copies of their averages.
template <class Updater, class View, class Reading = no_average_reading> struct row_catch_up {
    using missed = typename View::missed;
    using storage = typename Updater::traits::storage;
    using compute = typename Updater::traits::compute;

    rows_at<Updater> rows;
    View history;
    std::uint32_t now;
    std::uint32_t skip_up_to = 0; // skips rows with at most this many pending steps
    GRADSTEP_NO_UNIQUE_ADDRESS Reading reading = {};

    template <bool out_of_place, class Out>
    GRADSTEP_HD catch_up_kernel<Updater, missed, out_of_place, Out, Reading> kernel(std::uint64_t id, missed const& m,
                                                                                    Out* to) const {
        auto const row = rows.at(id);
        return {to, row.weight, row.state, row.master, m, reading};
    }
    // The pending steps of row `id`.
    GRADSTEP_HD missed missed_by(std::uint64_t id) const {
        auto const row = rows.at(id);
        if (!rows.has_last_steps() || now - *row.last_step <= skip_up_to) return {};
        return rows.missed_by(history, row);
    }
    // The same, and marks the row as up to date.
    GRADSTEP_INLINE missed plan(std::uint64_t id) const {
        missed const out = missed_by(id);
        if (out.any()) rows.last_step_of(id) = now;
        return out;
    }
    // Updates row `id` in place, with packs V.
    template <pack V> GRADSTEP_INLINE void catch_up(std::uint64_t id) const {
        missed const m = plan(id);
        if (m.any()) apply<V>(id, m);
    }
    template <pack V> GRADSTEP_INLINE void apply(std::uint64_t id, missed const& m) const {
        sweep<V>(kernel<false>(id, m, rows.weight_of(id)), 0, rows.width);
        rows.catch_up_row_state(m, id);
    }
    // Prefetches what a copy of row `id` needs.
    GRADSTEP_INLINE void prefetch_read(std::uint64_t id) const {
        rows.prefetch_last_step(id);
        constexpr bool of_weight =
            !missed::reads_state && !Updater::traits::has_master && std::is_same_v<Reading, no_average_reading>;
        if constexpr (of_weight) rows.prefetch_lines(rows.weight_of(id), rows.width);
        else rows.prefetch(id);
    }
    // The address of the values of row `id`: the row itself, or a copy in `room` if it has pending
    // steps.
    template <pack V> GRADSTEP_INLINE storage const* view(std::uint64_t id, storage* room) const {
        missed const m = missed_by(id);
        if (!m.any()) return rows.weight_of(id);
        read<V>(id, m, room);
        return room;
    }
    template <pack V, class Out> GRADSTEP_INLINE void read(std::uint64_t id, Out* out) const {
        read<V>(id, missed_by(id), out);
    }
    template <pack V, class Out> GRADSTEP_INLINE void read(std::uint64_t id, missed const& m, Out* out) const {
        sweep<V>(kernel<true>(id, m, out), 0, rows.width);
    }
};

// Integers wrap around in sums as in products.
template <pack V> GRADSTEP_HD V plus(V a, V b) {
    using compute = typename pack_traits<V>::value_type;
    if constexpr (std::is_integral_v<compute>) return math::fma(V(compute(1)), a, b);
    else return a + b;
}

// Adds rows of values of type Storage, times their weights, in columns of packs: each column in
// registers, over all rows.
template <pack V, class Storage, std::size_t columns, bool has_weights>
GRADSTEP_INLINE void add_columns(pooled_rows const& of, std::size_t i) {
    using io = pack_traits<V>;
    using compute = typename io::value_type;
    auto* const sums = static_cast<compute*>(of.sums) + i;
    auto const term = [&](std::size_t k, std::size_t c) GRADSTEP_INLINE_LAMBDA {
        V const w = io::load(static_cast<Storage const*>(of.rows[k]) + i + c * io::size, all_lanes{});
        if constexpr (has_weights) return math::mul(V(static_cast<compute const*>(of.weights)[k]), w);
        else return w;
    };
    V sum[columns];
    std::size_t const first = of.begins && of.count != 0;
    for (std::size_t c = 0; c < columns; ++c) {
        if (first != 0) sum[c] = term(0, c);
        else if (of.begins) sum[c] = V(compute(0));
        else sum[c] = io::load(sums + c * io::size, all_lanes{});
    }
    for (std::size_t k = first; k < of.count; ++k)
        for (std::size_t c = 0; c < columns; ++c) sum[c] = plus(sum[c], term(k, c));
    for (std::size_t c = 0; c < columns; ++c) {
        if (of.out == nullptr) {
            io::store(sums + c * io::size, sum[c], all_lanes{});
            continue;
        }
        if constexpr (!std::is_integral_v<compute>)
            if (of.divisor > 1) sum[c] = math::div(sum[c], V(compute(of.divisor)));
        io::store(static_cast<Storage*>(of.out) + i + c * io::size, sum[c], all_lanes{});
    }
}
template <pack V, class Storage, bool has_weights> void add_rows(pooled_rows const& of) {
    using compute = typename pack_traits<V>::value_type;
    constexpr std::size_t lanes = pack_traits<V>::size, columns = 4;
    std::size_t i = 0;
    for (; i + columns * lanes <= of.width; i += columns * lanes) add_columns<V, Storage, columns, has_weights>(of, i);
    for (; i + lanes <= of.width; i += lanes) add_columns<V, Storage, 1, has_weights>(of, i);
    for (; i < of.width; ++i) add_columns<compute, Storage, 1, has_weights>(of, i);
}
template <pack V, class Storage> [[gnu::noinline]] void add_rows(pooled_rows const& of) {
    if constexpr (!std::is_integral_v<Storage>)
        if (of.weights != nullptr) return add_rows<V, Storage, true>(of);
    add_rows<V, Storage, false>(of);
}

// The rule of a step, for kernels that prepare it once more. If its numbers can change, it is a
// copy, since the next step changes them: they follow schedules, or come from outside with the
// rate.
template <class Updater> struct policy_copy {
    typename Updater::rule_type rule;
    typename Updater::rule_type const* operator->() const { return &rule; }
};
template <class Updater>
inline constexpr bool has_constant_rule =
    Updater::moving_numbers::of_rule == 0 && !std::is_same_v<typename Updater::schedule_type, external>;
template <class Updater>
using policy_of_step =
    std::conditional_t<has_constant_rule<Updater>, typename Updater::rule_type const*, policy_copy<Updater>>;
template <class Updater> policy_of_step<Updater> policy_for_step(typename Updater::rule_type const& rule) {
    if constexpr (has_constant_rule<Updater>) return &rule;
    else return {rule};
}

// w <- w * (max_norm / |w|) if |w| is larger: of a row after its step. Not inlined: all rules share
// it.
template <class T, class Traits>
[[gnu::noinline]] void limit_norm_of(T* trained, typename Traits::storage* weight, std::size_t width, double max_norm) {
    using compute = typename Traits::compute;
    std::span<T const> const all(trained, width);
    double const norm = root_of_squares([&](double unit) { return sum_of_blocks(all, unit); });
    if (!(norm > max_norm)) return; // a NaN stays
    auto const factor = static_cast<compute>(max_norm / norm);
    for (std::size_t i = 0; i < width; ++i) {
        compute const w = math::mul(factor, pack_traits<compute>::load(trained + i, all_lanes{}));
        pack_traits<compute>::store(trained + i, w, all_lanes{});
        if constexpr (Traits::has_master) pack_traits<compute>::store(weight + i, w, all_lanes{});
    }
}
template <class Updater>
void limit_norm(row_addresses<Updater> const& row, [[maybe_unused]] std::size_t width,
                [[maybe_unused]] double max_norm) {
    using traits = typename Updater::traits;
    if constexpr (std::is_floating_point_v<typename traits::compute>) {
        if constexpr (traits::has_master)
            limit_norm_of<typename traits::state, traits>(row.master, row.weight, width, max_norm);
        else limit_norm_of<typename traits::storage, traits>(row.weight, row.weight, width, max_norm);
    }
}

// The gradients of one row of a batch.
template <class Storage> struct sources_of_row {
    Storage const* gradients;
    std::uint32_t const* sources; // of distinct_rows
    void const* factors;
    std::size_t first, count, width, end; // end: of the batch; 0 without prefetching

    Storage const* gradient(std::size_t j) const { return gradients + (sources == nullptr ? j : sources[j]) * width; }
    // The gradient of source j from element i on, times its factor.
    template <pack V, bool has_factors> GRADSTEP_INLINE V term(std::size_t j, std::size_t i) const {
        using compute = typename pack_traits<V>::value_type;
        V const g = pack_traits<V>::load(gradient(j) + i, all_lanes{});
        if constexpr (has_factors && !std::is_integral_v<compute>)
            return math::mul(V(static_cast<compute const*>(factors)[j]), g);
        else return g;
    }
    // Prefetches the gradient at sources[j].
    void prefetch(std::size_t j) const {
        if (j < end) prefetch_memory(gradient(j), width * sizeof(Storage));
    }
};
// The sum of gradients in batch order, divided by `divisor`, times `scale`.
template <pack V, class T> GRADSTEP_HD V finished(V sum, T divisor, T scale) {
    if constexpr (!std::is_integral_v<T>)
        if (divisor > 1) sum = math::div(sum, V(divisor));
    return scale == T(1) ? sum : math::mul(V(scale), sum);
}
// Each column of packs is summed over all gradients before the next column, in registers. The first
// column also prefetches the following gradients, if prefetching is on.
template <pack V, bool has_factors, std::size_t columns, class Storage, class T>
GRADSTEP_INLINE void stage_columns(sources_of_row<Storage> const& of, std::size_t i, T* staged, T divisor, T scale) {
    constexpr std::size_t lanes = pack_traits<V>::size;
    V sum[columns];
    for (std::size_t c = 0; c < columns; ++c) sum[c] = of.template term<V, has_factors>(of.first, i + c * lanes);
    for (std::size_t k = 1; k < of.count; ++k) {
        if (i == 0) of.prefetch(of.first + k + gradients_ahead);
        for (std::size_t c = 0; c < columns; ++c)
            sum[c] = plus(sum[c], of.template term<V, has_factors>(of.first + k, i + c * lanes));
    }
    for (std::size_t c = 0; c < columns; ++c)
        pack_traits<V>::store(staged + i + c * lanes, finished(sum[c], divisor, scale), all_lanes{});
}
template <pack V, bool has_factors, class Storage, class T>
GRADSTEP_INLINE void stage_gradients(sources_of_row<Storage> const& of, T* staged, T divisor, T scale) {
    constexpr std::size_t lanes = pack_traits<V>::size, columns = 4;
    std::size_t i = 0;
    for (; i + columns * lanes <= of.width; i += columns * lanes)
        stage_columns<V, has_factors, columns>(of, i, staged, divisor, scale);
    for (; i + lanes <= of.width; i += lanes) stage_columns<V, has_factors, 1>(of, i, staged, divisor, scale);
    for (; i < of.width; ++i) stage_columns<T, has_factors, 1>(of, i, staged, divisor, scale);
}
// Writes the gradient of a row in the compute type. Not inlined: all rules share it.
template <pack V, class Storage, class T>
[[gnu::noinline]] void stage_gradients(sources_of_row<Storage> const& given, T* staged, T divisor, T scale) {
    sources_of_row<Storage> const of = given; // its pointers stay in registers
    if (of.factors == nullptr) stage_gradients<V, false>(of, staged, divisor, scale);
    else stage_gradients<V, true>(of, staged, divisor, scale);
}

// One step of the rows of a batch: the view that kernels of a table run with. It contains the
// prepared scalars and pointers of the step, and is trivially copyable. For each row, the caller
// plans (`plan`) and then runs (`run`) it. Different rows can run concurrently.
template <class Updater, class View> struct row_update {
    using element = typename Updater::element_type;
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using missed = typename View::missed;
    template <class Gradient> using kernel = update_kernel<element, rule_type, regularizer_type, Gradient, missed>;

    rows_at<Updater> rows;
    distinct_rows batch;
    storage const* gradients;
    bool fetches_rows, fetches_gradients; // prefetches ahead
    compute scale;                        // of every gradient
    bool mean;                            // of duplicates, instead of their sum
    typename rule_type::template coeffs<compute> rule;
    typename regularizer_type::template coeffs<compute> regularizer;
    View history;
    std::uint32_t step;
    double rate;
    policy_of_step<Updater> policy; // set if every row has its own bias corrections
    double max_norm;                // of a row after its step; 0: no limit
    GRADSTEP_NO_UNIQUE_ADDRESS rounding_of<element> rounding = {};
    GRADSTEP_NO_UNIQUE_ADDRESS noise_of<rule_type> noise = {};

    GRADSTEP_HD std::uint64_t id(std::size_t r) const { return batch.ids[r]; }
    GRADSTEP_HD std::size_t first_source(std::size_t r) const { return batch.begin == nullptr ? r : batch.begin[r]; }
    GRADSTEP_HD std::size_t source_count(std::size_t r) const {
        return batch.begin == nullptr ? 1 : batch.begin[r + 1] - batch.begin[r];
    }
    // The number of gradients of the batch.
    GRADSTEP_HD std::size_t source_end() const { return first_source(batch.count); }
    GRADSTEP_HD storage const* gradient(std::size_t j) const {
        return gradients + (batch.sources == nullptr ? j : batch.sources[j]) * rows.width;
    }

    // The pending steps of row r of the batch. Marks the row as up to date.
    GRADSTEP_HD missed plan(std::size_t r) const {
        auto const row = rows.at(id(r));
        missed const out = rows.missed_by(history, row);
        if (rows.has_last_steps()) *row.last_step = step;
        return out;
    }

    // The gradient of one element of row r. Several gradients are added in batch order.
    template <pack V, class Which> GRADSTEP_HD V gradient_at(std::size_t r, std::size_t i, Which which) const {
        std::size_t const first = first_source(r), count = source_count(r);
        V g = pack_traits<V>::load(gradient(first) + i, which);
        for (std::size_t k = 1; k < count; ++k) g = plus(g, pack_traits<V>::load(gradient(first + k) + i, which));
        return finish(g, count);
    }
    template <pack V> GRADSTEP_HD V finish(V sum, std::size_t count) const {
        return finished(sum, compute(mean ? count : 1), scale);
    }

    // Prefetches row r. Its gradients are prefetched when the gradients of earlier rows are read.
    GRADSTEP_INLINE void prefetch(std::size_t r) const {
        if (fetches_rows) rows.prefetch(id(r));
    }
    // Prefetches the gradient at sources[j].
    GRADSTEP_INLINE void prefetch_gradient(std::size_t j) const {
        if (fetches_gradients && j < source_end()) rows.prefetch_lines(gradient(j), rows.width);
    }
    GRADSTEP_INLINE void prefetch_last_step(std::size_t r) const { rows.prefetch_last_step(id(r)); }

    // Updates row r; `staged` has room for a row. `always_staged`: one kernel for all gradients,
    // which compiles in less time.
    template <pack V, bool always_staged = false>
    GRADSTEP_INLINE void run(std::size_t r, missed const& m, compute* staged) const {
        std::size_t const first = first_source(r);
        prefetch_gradient(first + gradients_ahead);
        bool const as_it_is = source_count(r) == 1 && scale == compute(1) && batch.factors == nullptr;
        if constexpr (std::is_same_v<storage, compute>) {
            if (!as_it_is) stage<V>(r, staged);
            run_kernel<V>(r, make_kernel(r, m, plain_gradient<compute>{as_it_is ? gradient(first) : staged}));
        } else {
            if constexpr (!always_staged)
                if (as_it_is) return run_kernel<V>(r, make_kernel(r, m, plain_gradient<storage>{gradient(first)}));
            stage<V>(r, staged);
            run_kernel<V>(r, make_kernel(r, m, plain_gradient<compute>{staged}));
        }
    }

    // Whether `run_one_pack` can update the rows: each is one pack, and no row needs anything else.
    static constexpr bool has_one_pack = !row_wise_rule<rule_type> && std::is_empty_v<missed>;
    template <pack V> bool is_one_pack() const {
        constexpr bool masked = pack_traits<V>::template can_mask<storage>;
        std::size_t const lanes = pack_traits<V>::size;
        return (masked ? rows.width <= lanes : rows.width == lanes) && batch.begin == nullptr && scale == compute(1) &&
               batch.factors == nullptr && !rows.has_update_counts() && max_norm == 0;
    }
    template <pack V, class Which> GRADSTEP_INLINE void run_one_pack(std::size_t r, Which which) const {
        make_kernel(r, plan(r), plain_gradient<storage>{gradient(r)}).template at<V>(0, which);
    }

    template <class Gradient>
    GRADSTEP_HD kernel<Gradient> make_kernel(std::size_t r, missed const& m, Gradient g) const {
        std::uint64_t const row = id(r);
        auto const at = rows.at(row);
        kernel<Gradient> out{rule, regularizer, at.weight, g, at.state, at.master, m};
        if constexpr (traits::is_stochastic) out.rounding = rounding.row(rows.name_of(row), rows.width);
        if constexpr (noisy_rule<rule_type>) out.noise = noise.row(rows.name_of(row), rows.width);
        return out;
    }

private:
    // Counts an update of a row, and prepares the rule for it.
    [[gnu::noinline]] typename rule_type::template coeffs<compute> prepare_alone(std::uint32_t& update_count) const {
        update_count += update_count != std::numeric_limits<std::uint32_t>::max();
        return policy->template prepare<compute>(step_info{update_count, rate});
    }
    template <pack V, class Kernel> GRADSTEP_INLINE void run_kernel(std::size_t r, Kernel k) const {
        if (rows.has_update_counts()) k.rule = prepare_alone(*rows.at(id(r)).update_count);
        if constexpr (row_wise_rule<rule_type>) {
            rows.catch_up_row_state(k.missed, id(r));
            finalize(k, block_sums<Kernel>::template of_all<V>(k, rows.width), rows.width, rows.at(id(r)).row);
        }
        sweep<V>(k, 0, rows.width);
        if (max_norm != 0) limit_norm(rows.at(id(r)), rows.width, max_norm);
    }
    // The gradient of row r in the compute type. A single gradient of whole packs is staged inline,
    // since a call would take as long as the row.
    template <pack V> GRADSTEP_INLINE void stage(std::size_t r, compute* staged) const {
        constexpr std::size_t lanes = pack_traits<V>::size;
        std::size_t const first = first_source(r), count = source_count(r);
        if (count == 1 && rows.width % lanes == 0) {
            V const factor(batch.factors == nullptr ? compute(1) : static_cast<compute const*>(batch.factors)[first]);
            storage const* const g = gradient(first);
            GRADSTEP_KEEP_LOOP
            for (std::size_t i = 0; i < rows.width; i += lanes) {
                V const x = math::mul(factor, pack_traits<V>::load(g + i, all_lanes{})); // 1 changes nothing
                pack_traits<V>::store(staged + i, math::mul(V(scale), x), all_lanes{});
            }
            return;
        }
        stage_gradients<V>(sources_of_row<storage>{gradients, batch.sources, batch.factors, first, count, rows.width,
                                                   fetches_gradients ? source_end() : 0},
                           staged, compute(mean ? count : 1), scale);
    }
};

// The pack for short rows.
template <class V> struct short_pack_of { using type = V; };
template <class V>
requires(requires { typename pack_traits<V>::short_pack; }) struct short_pack_of<V> {
    using type = typename pack_traits<V>::short_pack;
};

// The same as run_rows for rows of one pack, in half as many instructions: the processor then works
// on several rows at once, and waits for its divider alone.
template <pack V, class Update>
GRADSTEP_INLINE void run_short_rows(Update const& shared, std::size_t first, std::size_t last) {
    Update update = shared;
    update.batch.begin = nullptr;
    auto const lanes = [&] {
        if constexpr (pack_traits<V>::template can_mask<typename Update::storage>)
            return pack_traits<V>::first(update.rows.width);
        else return all_lanes{};
    }();
    std::size_t fetched = first; // one loop, so that what it prefetches is compiled once
    for (std::size_t r = first; r < last; ++r) {
        for (; update.fetches_rows && fetched < std::min(r + rows_ahead + 1, last); ++fetched) {
            update.prefetch_last_step(fetched);
            update.prefetch(fetched);
        }
        update.prefetch_gradient(r + gradients_ahead);
        update.template run_one_pack<V>(r, lanes);
    }
}

// Updates rows [first, last) of a batch. Plans several rows at a time, so that their exponentials
// overlap, and prefetches every row while earlier rows are updated.
template <pack V, bool always_staged = false, class Update>
GRADSTEP_INLINE void run_rows(Update const& shared, std::size_t first, std::size_t last,
                              typename Update::compute* staged) {
    constexpr std::size_t ahead = rows_ahead, together = 8; // twice as many plans are slower
    if constexpr (Update::has_one_pack &&
                  (!always_staged || std::is_same_v<typename Update::storage, typename Update::compute>)) {
        using short_pack = typename short_pack_of<V>::type;
        if (shared.template is_one_pack<short_pack>()) return run_short_rows<short_pack>(shared, first, last);
    }
    Update const update = shared; // by value: its scalars stay in registers
    std::size_t stamped = first, fetched = first;
    std::size_t const source = update.first_source(first);
    for (std::size_t j = source; j < source + gradients_ahead; ++j) update.prefetch_gradient(j);
    for (std::size_t r = first; r < last; r += together) {
        std::size_t const count = std::min(together, last - r);
        for (; stamped < std::min(r + ahead + together, last); ++stamped) update.prefetch_last_step(stamped);
        typename Update::missed missed[together];
        for (std::size_t k = 0; k < count; ++k) missed[k] = update.plan(r + k);
        for (std::size_t k = 0; k < count; ++k) {
            for (; fetched < std::min(r + k + ahead + 1, last); ++fetched) update.prefetch(fetched);
            update.template run<V, always_staged>(r + k, missed[k], staged);
        }
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
