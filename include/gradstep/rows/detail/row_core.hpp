#pragma once
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/rows/detail/checked_options.hpp>
#include <gradstep/rows/detail/kept_history.hpp>
#include <gradstep/rows/row_memory.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// What a row_updater consists of, without the checks of the caller's memory: policies, clock,
// options, shape, history, and the scratch memory of updates. row_updater checks memory before it
// calls it. `table`, `keyed_table` and checkpoints own the memory, and call it directly.
template <class Updater, class CatchUp> struct row_core {
    using updater_type = Updater;
    using rule_type = typename Updater::rule_type;
    using backend_type = typename Updater::backend_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using memory_type = row_memory<Updater>;
    using engine_type = typename row_engine_of<Updater>::type;
    using kept_type = kept_history<Updater, CatchUp>;
    using history_type = typename kept_type::history_type;
    using view_type = typename kept_type::view_type;
    using catch_up_type = row_catch_up<Updater, view_type>;
    static constexpr catch_up_form form = kept_type::form;
    static constexpr bool has_stamps = form != catch_up_form::untracked,
                          has_history = history_type::numbers_per_step != 0;
    using shape_type = row_shape<Updater, has_stamps>;

    Updater updater;
    CatchUp catch_up_policy;
    table_options options;
    shape_type shape;
    kept_type kept;
    std::uint64_t left_out = 0; // gradients that were not finite
    engine_type engine;         // scratch memory of updates; allocated before anything is written

    template <std::integral Rows, std::integral Width>
    row_core(Updater const& of, Rows rows, Width width, CatchUp const& policy, table_options&& chosen)
        : updater(of), catch_up_policy(policy), options(checked_options(of, policy, std::move(chosen))),
          shape(shape_of(rows, width, options.row_steps)), kept(of, policy, options, shape.num_rows, shape.width) {
        updater.seek({});
    }

    std::uint64_t num_rows() const { return shape.num_rows; }
    std::size_t width() const { return shape.width; }
    backend_type const& backend() const { return updater.backend(); }
    std::int64_t step() const { return updater.clock().step; }
    template <std::integral Rows> std::uint64_t counted_rows(Rows count, std::uint64_t least) const {
        return shape_type::counted_rows(count, width(), least);
    }
    void grow(std::uint64_t rows) {
        kept.grow(updater, options, rows);
        shape.num_rows = rows;
    }
    // Removes the rows from `rows` on.
    void shrink(std::uint64_t rows) {
        shape.num_rows = rows;
        kept.shrink(rows);
    }
    // Calls f(), which allocates memory for so many rows. Explains a failed allocation.
    template <class F> decltype(auto) with_memory(std::uint64_t rows, F const& f) const {
        auto const refuse = [&](auto const&) {
            refuse_row_memory(rows, width(), sizeof(storage) + Updater::state_bytes(1));
        };
        return rethrow_as<std::length_error>([&] { return rethrow_as<std::bad_alloc>(f, refuse); }, refuse);
    }
    // Before rows move or are removed: begins a new lap of the sweep, since the positions of the
    // current lap and its pace belong to the rows before. Rows that would be too old for the
    // history when the new lap visits them catch up. Throws what the application's pool throws;
    // rows that have caught up stay so.
    void begin_lap(memory_type const& rows) {
        catch_up(sweep_to(rows, step()), 0, num_rows());
        kept.restart();
    }
    // Moves rows in host memory: row i becomes what was row order.values[i], with its state and its
    // pending steps. Removed rows are then behind order.after().
    void rearrange(memory_type const& rows, row_order&& order) {
        begin_lap(rows);
        auto const pointers = shape.at(rows);
        auto const columns = shape.columns();
        auto const swaps = swaps_of(std::move(order));
        for (std::size_t i = 0; i != swaps.size(); ++i)
            if (swaps[i] != i)
                swap_rows(columns, pointers_of(pointers.at(i)).data(), pointers_of(pointers.at(swaps[i])).data());
    }
    // How many bytes an update of a row moves.
    std::size_t row_bytes() const { return Updater::bytes_per_element * width(); }

    // First phase of an update: everything that can throw, for one thread at a time. The caller
    // orders the second phase (`striped`). `batch` contains distinct rows, checked and grouped.
    // From now on, inactive rows miss the step.
    //
    // The second phase neither throws nor needs this object: first catch up the rows that are due,
    // then run the rows of the batch. Plan each row (`plan`) before another step begins. It can run
    // after that, except under replay, whose plans read the history. `skipped` gradients were not
    // finite.
    template <class Id>
    pending_step<Updater, view_type, Id> begin(memory_type const& rows, batch_rows<Id> const& batch,
                                               std::span<storage const> gradients, step_options const& how,
                                               std::size_t skipped) {
        auto const [first, last] = stale_rows();
        gradstep::clock const before = updater.clock();
        auto const next = updater.next_step(how);
        rollback_guard clock_back([&] { updater.seek(before); });
        kept.require_kept(updater, next.prepared().now);
        clock_back.dismiss();
        kept.record(updater, next.prepared().now, num_rows());
        left_out += skipped;
        return {first, last, sweep_to(rows, next.number() - 1), update_of(rows, batch, gradients, next)};
    }
    // A whole update. Compiled once for each type of ids, for all containers of ids and gradients.
    // `sources`: the rows of `gradients` that belong to the ids; null if they are in the order of
    // the ids.
    template <class Id>
    void apply(memory_type const& rows, std::span<Id const> ids, std::uint32_t const* sources,
               std::span<storage const> gradients, step_options const& how) {
        auto const shares = engine.group(backend(), ids, sources, gradients, width(), num_rows(), options, row_bytes());
        auto const [first_due, last_due] = stale_rows();
        engine.template reserve<row_update<Updater, view_type, Id>>(shares, width(), last_due - first_due);
        gradstep::clock const before = updater.clock();
        auto const next = updater.next_step(how);
        {
            // The application's pool can throw. Rows that have caught up can stay so: the step has
            // not begun.
            rollback_guard clock_back([&] { updater.seek(before); });
            kept.require_kept(updater, next.prepared().now);
            catch_up(sweep_to(rows, next.number() - 1), first_due, last_due);
            clock_back.dismiss();
        }
        // Before the rows are updated: if the pool throws from now on, parts of the step have run.
        kept.record(updater, next.prepared().now, num_rows());
        left_out += engine.left_out();
        engine.update(backend(), shares, width(),
                      [&](batch_rows<Id> const& batch) { return update_of(rows, batch, gradients, next); });
    }
    std::pair<std::uint64_t, std::uint64_t> stale_rows() const { return kept.due(num_rows()); }

    // Catches up rows, or copies of rows, to the steps so far.
    catch_up_type reader(memory_type const& rows) const { return catch_up_to(rows, step()); }
    // The same for averages.
    auto average_reader(memory_type const& rows) const {
        using reading = average_reading<rule_type, compute>;
        return row_catch_up<Updater, view_type, reading>{shape.at(rows),
                                                         kept.view(step()),
                                                         static_cast<std::uint32_t>(step()),
                                                         0,
                                                         {updater.rule().template read<compute>(step())}};
    }
    // Copies the rows that ids name to `out`.
    template <class T, class Reader, class Id, class Out>
    void read_by(Reader const& by, memory_type const& rows, std::span<Id const> ids, Out& out) const {
        auto const to = shape.template room<T>(rows, ids.size(), out);
        engine_type::check(backend(), ids, num_rows(), std::nullopt);
        engine_type::read(backend(), by, ids, to.data(), row_bytes());
    }
    // Writes the averages of all rows over their weights. State and last steps do not change.
    void put_averages(memory_type const& rows) const {
        std::uint64_t first = 0;
        shape.each_segment(rows, [&](memory_type const& segment) {
            auto const count = static_cast<std::uint64_t>(segment.values.size() / width());
            engine_type::read(backend(), average_reader(rows), first, first + count, segment.values.data(),
                              row_bytes());
            first += count;
        });
    }
    void catch_up(catch_up_type const& rows, std::uint64_t first, std::uint64_t last) {
        if constexpr (has_history)
            if (first < last) engine.catch_up(backend(), rows, first, last, row_bytes());
    }

    // `joined`: the last step before the rows join; 0 if they will catch up on all steps.
    row_begin<Updater> beginning(memory_type const& rows, bool state, std::int64_t joined) const {
        return {shape.at(rows), arriving<compute>(updater.rule(), joined), static_cast<std::uint32_t>(step()), state};
    }
    // Rows [first, last) before their first step. The values do not change if `initial` is null.
    void begin_rows(memory_type const& rows, initial_values const* initial, std::uint64_t first, std::uint64_t last,
                    bool catches_up) const {
        engine_type::begin(backend(), initial, beginning(rows, true, catches_up ? 0 : step()), first, last,
                           row_bytes());
    }
    // The same in zeroed memory: zeros are not written, so that a large table uses pages only for
    // active rows.
    void begin_zeroed_rows(memory_type const& rows, initial_values const& initial, std::uint64_t first,
                           std::uint64_t last, bool catches_up) const {
        std::int64_t const joined = catches_up ? 0 : step();
        bool const values = !is_zero(initial),
                   state = traits::has_master || (joined != 0 && keeps_average<rule_type>) ||
                           !begins_at_zero<compute>(updater.rule()),
                   stamps = has_stamps && step() != 0;
        if (values || state || stamps)
            engine_type::begin(backend(), values ? &initial : nullptr, beginning(rows, state, joined), first, last,
                               row_bytes());
    }
    // The rows that ids name, as before their first step.
    template <class Id> void reset(memory_type const& rows, std::span<Id const> ids) const {
        engine_type::check(backend(), ids, num_rows(), std::nullopt);
        engine_type::begin(backend(), later_rows(), beginning(rows, true, step()), ids, row_bytes());
    }
    // Sets the values of the rows that ids name, in host memory, one after another: they catch up,
    // and their state follows the new values.
    template <class Id>
    void set_rows(memory_type const& rows, std::span<Id const> ids, std::span<storage const> values) const {
        using pack = typename backend_type::template pack<compute>;
        engine_type::check(backend(), ids, num_rows(), std::nullopt);
        catch_up_type const by = reader(rows);
        for (std::size_t k = 0; k != ids.size(); ++k) {
            auto const id = static_cast<std::uint64_t>(ids[k]);
            by.template catch_up<pack>(id);
            auto const row = by.rows.at(id);
            std::copy_n(values.data() + k * width(), width(), row.weight);
            [[maybe_unused]] std::int64_t const steps = by.rows.has_update_counts() ? *row.update_count : step();
            if constexpr (state_contains_weights<Updater>)
                sweep<pack>(follow_kernel(updater, steps, row.weight, row.state, row.master), 0, width());
        }
    }
    // The initial values of rows that are added after construction.
    initial_values later_rows() const { return options.initial.is_container() ? initial_values{} : options.initial; }
    // Whether new rows have pending steps. Throws value_error if the history does not contain all
    // of them.
    bool missed_all_steps(new_rows begin) const { return kept.has_all_steps(begin, step()); }
    // Catches up rows [first, last), which are as before their first step.
    void catch_up_since_start(memory_type const& rows, std::uint64_t first, std::uint64_t last) {
        auto all = reader(rows);
        if constexpr (history_type::kind == history_kind::factors) all.history.since_start = true;
        if constexpr (requires { all.history.of_state.since_start; }) all.history.of_state.since_start = true;
        auto fresh = beginning(rows, false, 0);
        // A last step is at most 2^32 - 1 steps behind. After that, no decaying state is left.
        fresh.last_step = step() >> 32 == 0 ? 0 : static_cast<std::uint32_t>(step()) + 1;
        engine_type::begin(backend(), nullptr, fresh, first, last, row_bytes());
        catch_up(all, first, last);
    }

    // Throws value_error or size_error unless the numbers, and a history of this size, belong to a
    // table with these policies and this number of rows. The history's numbers are checked later
    // (history_at).
    void require_own_history(row_progress const& from, std::uint64_t rows, std::uint64_t history_size) const {
        Updater{updater}.seek(from.clock); // throws for negative counts
        detail::require_own_history(from, rows, history_size, history_facts::of<history_type>());
    }
    // The history of a checkpoint, validated, and the sweep at its position.
    kept_type history_at(row_progress const& from, refresh_cursor const& at) const {
        return kept.resumed(updater, from, at);
    }
    // Continues from a validated checkpoint.
    void resume(row_progress const& from, std::uint64_t rows, kept_type&& history) {
        updater.seek(from.clock);
        kept = std::move(history);
        shape.num_rows = rows;
    }

private:
    static shape_type shape_of(auto rows, auto width, bool row_steps) {
        auto const columns = static_cast<std::size_t>(counted("width", width, 1));
        return {columns, shape_type::counted_rows(rows, columns, 0), {.touches = row_steps}};
    }
    catch_up_type catch_up_to(memory_type const& rows, std::int64_t last_step) const {
        return {shape.at(rows), kept.view(last_step), static_cast<std::uint32_t>(last_step)};
    }
    // The same for the rows that are due. Recently updated ones are skipped.
    catch_up_type sweep_to(memory_type const& rows, std::int64_t last_step) const {
        auto out = catch_up_to(rows, last_step);
        out.skip_up_to = static_cast<std::uint32_t>(kept.spared_steps());
        return out;
    }
    template <class Id>
    row_update<Updater, view_type, Id> update_of(memory_type const& rows, batch_rows<Id> const& batch,
                                                 std::span<storage const> gradients,
                                                 gradstep::step<Updater> const& next) const {
        // The bytes of a row and its state, without last step and update count.
        std::size_t const held_bytes = width() * (sizeof(storage) + Updater::slots * sizeof(typename traits::state));
        return make_row_update<view_type>(updater, next.prepared(), shape.at(rows), batch, gradients,
                                          kept.view(next.number() - 1), options, num_rows(), held_bytes);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
