#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/core/state_visitor.hpp>
#include <gradstep/sparse/checked_options.hpp>
#include <gradstep/sparse/kept_history.hpp>
#include <gradstep/sparse/row_engine.hpp>
#include <gradstep/sparse/row_memory.hpp>
#include <gradstep/sparse/row_progress.hpp>
#include <gradstep/updater.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
/// Sparse updates of memory that the caller owns, as `updater` is for dense tensors: policies, clock and
/// history, without the rows. `table` is a row_updater with its rows.
///
///     gs::row_updater rows{optimizer, num_rows, width, gs::exact{},
///                          {.duplicates = gs::duplicates::sum}};
///     auto memory = rows.memory(values, n, stamps);    // a span per state slot, then stamps
///     rows.initialize(memory);                         // state and stamps before the first step
///     rows.update(memory, ids, gradient_rows);
///
/// `update`, `flush` and `restore` are not thread-safe; reads can run concurrently with each other. For
/// concurrent updates use `gs::striped`.
template <class Updater, class CatchUp> class row_updater {
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    using backend_type = typename Updater::backend_type;
    using memory_space = typename backend_type::memory_space;
    using traits = typename Updater::traits;
    using compute = typename traits::compute;
    using engine = typename detail::row_engine_of<Updater>::type;
    template <class T> using buffer = typename backend_type::template table_buffer<T>;

    using kept = detail::kept_history<Updater, CatchUp>;
    using history_type = typename kept::history_type;
    using view_type = typename kept::view_type;
    static constexpr detail::catch_up_form form = kept::form;

public:
    /// The types of the optimizer (`updater_type`), of a value in memory (`storage`), and of the rows
    /// (`memory_type`).
    using updater_type = Updater;
    using storage = typename traits::storage;
    using memory_type = row_memory<Updater>;

    /// Whether rows have stamps, 4 bytes each: with every policy except touch_only.
    static constexpr bool has_stamps = form != detail::catch_up_form::untracked;
    /// How many doubles a checkpoint keeps per step, and how many bytes of history are in memory per step
    /// (`history_bytes`). If both are 0, `has_history` is false.
    static constexpr std::size_t history_numbers = history_type::numbers_per_step,
                                 history_bytes = history_type::bytes_per_step;
    static constexpr bool has_history = history_numbers != 0;
    /// The checks of memory for num_rows and width.
    using shape_type = detail::row_shape<Updater, has_stamps>;

    /// Copies the policies of `optimizer`; the clock starts at 0. Throws value_error for a width of 0, negative
    /// counts and options out of range, memory_error if the history does not fit into memory.
    template <std::integral Rows, std::integral Width>
    row_updater(Updater const& optimizer, Rows num_rows, Width width, CatchUp catch_up = {}, table_options options = {})
        : updater_(optimizer), catch_up_(catch_up),
          options_(detail::checked_options(optimizer, catch_up, std::move(options))),
          shape_(shape_of(num_rows, width, options_.row_steps)),
          kept_(optimizer, catch_up, options_, shape_.num_rows, shape_.width) {
        updater_.seek({});
    }

    /// The shape, `num_rows()` rows of `width()` elements; the `clock()`; the policies, `optimizer()`; the
    /// `options()`.
    std::uint64_t num_rows() const { return shape_.num_rows; }
    std::size_t width() const { return shape_.width; }
    gradstep::clock clock() const { return updater_.clock(); }
    Updater const& optimizer() const { return updater_; }
    table_options const& options() const { return options_; }
    /// The number of steps that the history keeps.
    std::uint64_t history_capacity() const { return kept_.capacity(); }
    /// How many gradient rows were skipped because they were not finite (table_options.on_nonfinite), since
    /// construction. For a pooled gradient, each id counts.
    std::uint64_t gradients_left_out() const { return left_out_; }

    /// The caller's memory as this updater's rows: values (num_rows x width), one buffer for each state slot
    /// (num_rows long if the rule keeps one number per row, else num_rows x width), stamps if has_stamps,
    /// touches with row_steps (both uint32, num_rows). Throws size_error or buffer_error; a wrong number of
    /// buffers does not compile.
    template <class Values, class... Buffers> memory_type memory(Values&& values, Buffers&&... buffers) const {
        detail::require_lasting<Values, Buffers...>();
        constexpr std::size_t least = Updater::slots + has_stamps;
        static_assert(sizeof...(Buffers) == least || sizeof...(Buffers) == least + 1,
                      "gradstep: row_updater::memory takes values, one buffer for each state slot of the rule in its "
                      "order, the master copy if the element keeps one, stamps if the catch-up policy has them, and "
                      "touches with row_steps");
        return shape_.bind(values, buffers...);
    }

    /// Sets state, stamps and touches as they are before the first step, and the master copy from the values.
    /// The values do not change.
    void initialize(memory_type const& rows) const {
        shape_.check(rows);
        begin_rows(rows, nullptr, 0, num_rows(), false);
    }

    /// Increases the number of rows. The caller's memory must contain them; `initialize(memory, first)` begins
    /// them. The history grows with the rows unless options().max_history is set, and is copied once: a step
    /// then costs the same as with a table that had this size from the start. Throws value_error if the number
    /// is less than the current one, memory_error if the history does not fit into memory; nothing has changed
    /// then.
    template <std::integral Rows> void grow(Rows num_rows) {
        std::uint64_t const rows = counted_rows(num_rows, shape_.num_rows);
        kept_.grow(updater_, options_, rows);
        shape_.num_rows = rows;
    }
    /// The same as `initialize` for the rows from `first` on. With new_rows::since_the_start they have caught
    /// up on all steps so far. Under `exact` with factors this always works. With a linear rule and under
    /// `replay` it works as long as the history contains all steps; otherwise it throws value_error before
    /// anything is written. Under `touch_only` there are no pending steps.
    void initialize(memory_type const& rows, std::uint64_t first, new_rows begin = new_rows::as_of_now) {
        shape_.check(rows);
        if (first > num_rows())
            detail::fail<value_error>("first = " + detail::text(first) + ": must be at most " +
                                      detail::text(num_rows()));
        bool const catches_up = missed_all_steps(begin);
        begin_rows(rows, nullptr, first, num_rows(), catches_up);
        if (catches_up) catch_up_since_start(rows, first, num_rows());
    }

    /// Resets the rows in `ids`: values as `options().initial` defines (zero if it was a container), state as
    /// at step 0, up to date. Throws value_error for an id out of range, before anything is written.
    template <class Ids> void reset(memory_type const& rows, Ids&& ids) const {
        auto const id_span = shape_type::ids_of(ids);
        shape_.check(rows);
        engine::check(updater_.backend(), id_span, num_rows(), std::nullopt);
        engine::begin(updater_.backend(), later_rows(), beginning(rows, true, updater_.clock().step), id_span,
                      row_bytes());
    }

    /// One step of the rows in `ids`: `gradient_rows` contains ids.size() x width elements. `options` as in
    /// `updater::next_step`. The order for a row: catch up to the step before, gradient_scale * (the sum or
    /// mean of its gradients), regularizers, rule, `proximal` and `after_step`, rounding.
    ///
    /// Throws value_error for an id out of range or a duplicate under `unique`, size_error, buffer_error, and
    /// the errors of next_step, all before anything is written, including the clock. If the application's
    /// thread pool throws, parts of the step may have run: the clock then counts it.
    template <class Ids, class Gradients>
    void update(memory_type const& rows, Ids&& ids, Gradients&& gradient_rows, step_options const& options = {}) {
        auto const id_span = shape_type::ids_of(ids);
        auto const given = shape_.gradients(rows, gradient_rows, id_span.size(), "ids", options);
        shape_.check(rows);
        apply(rows, id_span, nullptr, given, options);
        shape_.zero(updater_.backend(), gradient_rows, options);
    }

    /// One step with pooled gradients: row b of `bag_rows` is the gradient of every id of bag b. These are
    /// ids[offsets[b]] to ids[offsets[b + 1] - 1]. The last bag ends with the ids; offsets can end with the
    /// number of ids.
    template <class Ids, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(memory_type const& rows, Ids&& ids, Offsets&& offsets, Gradients&& bag_rows,
                step_options const& options = {}) {
        auto const id_span = shape_type::ids_of(ids);
        auto const offset_span = shape_type::ids_of(offsets);
        std::size_t const bags = detail::traits_of<Gradients>::size(bag_rows) / width();
        auto const given = shape_.gradients(rows, bag_rows, bags, "bags", options);
        shape_.check(rows);
        auto const bag_of = engine_.bags(updater_.backend(), offset_span, id_span.size(), bags);
        apply(rows, id_span, bag_of, given, options);
        shape_.zero(updater_.backend(), bag_rows, options);
    }

    /// Copies rows as they are after all steps so far, in the order of `ids`: out contains ids.size() x width
    /// elements. Writes nothing else.
    template <class Ids, class Out> void read(memory_type const& rows, Ids&& ids, Out&& out) const {
        detail::require_lasting<Out>();
        read_by<storage>(reader(rows), rows, shape_type::ids_of(ids), out);
    }
    /// The same for the averages that the rule keeps (`averaged`), in the type of the state, without rounding
    /// to storage. The average of an inactive row includes its pending steps, except under touch_only. Does not
    /// compile if the rule keeps no average.
    template <class Ids, class Out> void read_averages(memory_type const& rows, Ids&& ids, Out&& out) const {
        if constexpr (detail::require_average<rule_type>()) {
            detail::require_lasting<Out>();
            read_by<typename traits::state>(average_reader(rows), rows, shape_type::ids_of(ids), out);
        }
    }

    /// The reader behind `read`: catches up copies of rows to the steps so far. For callers that read rows in
    /// their own order (`striped`).
    detail::row_catch_up<Updater, view_type> reader(memory_type const& rows) const {
        return catch_up_to(rows, updater_.clock().step);
    }
    /// First phase of an update: everything that can throw, for one thread at a time. The caller orders the
    /// second phase (`striped`). `batch` contains distinct rows, checked and grouped. From now on, inactive
    /// rows miss the step.
    ///
    /// The second phase neither throws nor needs this object: first catch up the rows that are due, then run
    /// the rows of the batch. Plan each row (`plan`) before another step begins. It can run after that, except
    /// under replay, whose plans read the history. `left_out` gradients were skipped because they were not
    /// finite.
    template <class Id>
    detail::pending_step<Updater, view_type, Id> begin(memory_type const& rows, detail::batch_rows<Id> const& batch,
                                                       std::span<storage const> gradients, step_options const& options,
                                                       std::size_t left_out = 0) {
        auto const [first, last] = stale_rows();
        gradstep::clock const before = updater_.clock();
        auto const step = updater_.next_step(options);
        detail::rollback_guard begun([&] { updater_.seek(before); });
        kept_.require_kept(updater_, step.prepared().now);
        begun.dismiss();
        kept_.record(updater_, step.prepared().now, num_rows());
        left_out_ += left_out;
        return {first, last, sweep_to(rows, step.number() - 1), update_of(rows, batch, gradients, step)};
    }
    /// Whether catching up reads the history again, so that no other thread can write to it meanwhile.
    static constexpr bool plans_read_history = form == detail::catch_up_form::steps;
    /// The checks of buffers that are given in addition to the rows.
    shape_type const& shape() const { return shape_; }

    /// Updates every row to the steps so far, in parallel. A second flush changes nothing.
    void flush(memory_type const& rows) {
        shape_.check(rows);
        catch_up(catch_up_to(rows, updater_.clock().step), 0, num_rows());
    }

    /// The progress of the run, for a checkpoint, and its restoration. `restore` needs the memory as it was
    /// then, up to date or not. Throws value_error, size_error or memory_error, before anything changes, for
    /// numbers or stamps that no run of a table with this size and these policies can have (row_progress).
    row_progress progress() const { return kept_.progress(updater_.clock(), num_rows()); }
    void restore(memory_type const& rows, row_progress const& from) {
        shape_.check(rows);
        require_own_history(from, num_rows(), from.history.size());
        auto const refresh_cursor =
            detail::refresh_cursor::at(from.lap_row, from.lap_rows, num_rows(), from.max_history);
        require_stamps(rows, from, refresh_cursor);
        resume(from, num_rows(), history_at(from, refresh_cursor));
    }

    /// How many steps row `id` has missed. An average of the row needs this number when the row is updated
    /// again. Modulo 2^32 if only the stamp is kept (no regularizer shrinks the row, no momentum moves it).
    std::uint64_t pending_steps(memory_type const& rows, std::int64_t id) const requires has_stamps {
        shape_.check(rows);
        detail::check_ids(std::span<std::int64_t const>(&id, 1), num_rows(), std::nullopt);
        return static_cast<std::uint32_t>(updater_.clock().step) -
               shape_.at(rows).stamp_of(static_cast<std::uint64_t>(id));
    }
    /// The rows [first, second) whose pending steps the next update catches up before its own rows, if there
    /// are more than `max_row_age()` of them, so that no stamp becomes too old. Code that keeps averages asks
    /// for them too.
    std::pair<std::uint64_t, std::uint64_t> stale_rows() const { return kept_.due(num_rows()); }
    std::uint64_t max_row_age() const { return kept_.spared_steps(); }

private:
    template <class, class> friend class table;
    template <class, class> friend class keyed_table;
    template <class> friend struct detail::state_access;

    // Removes the rows from `num_rows` on.
    void shrink(std::uint64_t num_rows) {
        shape_.num_rows = num_rows;
        kept_.shrink(num_rows);
    }
    template <class T, class Reader, class Id, class Out>
    void read_by(Reader const& reader, memory_type const& rows, std::span<Id const> ids, Out& out) const {
        shape_.check(rows);
        auto const to = shape_.template room<T>(rows, ids.size(), out);
        engine::check(updater_.backend(), ids, num_rows(), std::nullopt);
        engine::read(updater_.backend(), reader, ids, to.data(), row_bytes());
    }
    // Reads the averages of rows after all steps so far.
    auto average_reader(memory_type const& rows) const {
        using reading = detail::average_reading<rule_type, compute>;
        std::int64_t const step = updater_.clock().step;
        return detail::row_catch_up<Updater, view_type, reading>{shape_.at(rows),
                                                                 kept_.view(step),
                                                                 static_cast<std::uint32_t>(step),
                                                                 0,
                                                                 {updater_.rule().template read<compute>(step)}};
    }
    // Writes the averages of all rows over their weights. State and stamps do not change.
    void put_averages(memory_type const& rows) const {
        std::uint64_t first = 0;
        shape_.each_segment(rows, [&](memory_type const& segment) {
            auto const count = static_cast<std::uint64_t>(segment.values.size() / width());
            engine::read(updater_.backend(), average_reader(rows), first, first + count, segment.values.data(),
                         row_bytes());
            first += count;
        });
    }

    template <std::integral Rows, std::integral Width>
    static shape_type shape_of(Rows num_rows, Width width, bool row_steps) {
        auto const columns = static_cast<std::size_t>(detail::counted("width", width, 1));
        return {columns, shape_type::counted_rows(num_rows, columns, 0), row_steps};
    }
    template <std::integral Rows> std::uint64_t counted_rows(Rows num_rows, std::uint64_t least) const {
        return shape_type::counted_rows(num_rows, width(), least);
    }
    // How many bytes an update of a row moves.
    std::size_t row_bytes() const { return Updater::bytes_per_element * width(); }
    // The bytes of a row and its state, without stamp and touches.
    std::size_t held_row_bytes() const {
        return width() * (sizeof(storage) + Updater::slots * sizeof(typename traits::state));
    }

    detail::row_catch_up<Updater, view_type> catch_up_to(memory_type const& rows, std::int64_t step) const {
        return {shape_.at(rows), kept_.view(step), static_cast<std::uint32_t>(step)};
    }
    // Whether new rows have pending steps. Throws value_error if the history does not contain all of them.
    bool missed_all_steps(new_rows begin) const { return kept_.has_all_steps(begin, updater_.clock().step); }
    // Catches up rows [first, last), which are as before their first step.
    void catch_up_since_start(memory_type const& rows, std::uint64_t first, std::uint64_t last) {
        std::int64_t const step = updater_.clock().step;
        auto all = catch_up_to(rows, step);
        if constexpr (history_type::kind == history_kind::factors) all.history.since_start = true;
        // A stamp is at most 2^32 - 1 steps behind. After that, no decaying state is left.
        std::uint32_t const stamp = step >> 32 == 0 ? 0 : static_cast<std::uint32_t>(step) + 1;
        auto stamped = beginning(rows, false, 0);
        stamped.stamp = stamp;
        engine::begin(updater_.backend(), nullptr, stamped, first, last, row_bytes());
        catch_up(all, first, last);
    }
    // The same for the rows that are due. Recently updated ones are skipped.
    detail::row_catch_up<Updater, view_type> sweep_to(memory_type const& rows, std::int64_t step) const {
        auto out = catch_up_to(rows, step);
        out.skip_up_to = static_cast<std::uint32_t>(kept_.spared_steps());
        return out;
    }
    void catch_up(detail::row_catch_up<Updater, view_type> const& rows, std::uint64_t first, std::uint64_t last) {
        if constexpr (has_history)
            if (first < last) engine_.catch_up(updater_.backend(), rows, first, last, row_bytes());
    }

    // The history of a checkpoint, validated, and the sweep at its place.
    kept history_at(row_progress const& from, detail::refresh_cursor const& refresh_cursor) const {
        return kept_.resumed(updater_, from, refresh_cursor);
    }
    // Continues from a validated checkpoint.
    void resume(row_progress const& from, std::uint64_t rows, kept&& history) {
        updater_.seek(from.clock);
        kept_ = std::move(history);
        shape_.num_rows = rows;
    }
    // Throws value_error or size_error unless the numbers, and a history of this size, belong to a table with
    // these policies and this number of rows. The history's numbers are checked later (history_at).
    void require_own_history(row_progress const& from, std::uint64_t rows, std::uint64_t history_size) const {
        Updater{updater_}.seek(from.clock); // throws for negative counts
        detail::require_own_history(from, rows, history_size, history_facts::of<history_type>());
    }
    // Throws value_error for a row that has caught up to a future step, or to a step that the history will have
    // lost when the sweep visits the row.
    void require_stamps(memory_type const& rows, row_progress const& from,
                        detail::refresh_cursor const& refresh_cursor) const {
        if constexpr (has_stamps) kept_.require_stamps(updater_.backend(), shape_, rows, from, refresh_cursor);
    }
    std::uint64_t require_stamps(std::uint64_t first, std::span<std::uint32_t const> stamps, std::size_t stride,
                                 row_progress const& from, detail::refresh_cursor const& refresh_cursor) const {
        return detail::require_stamps(first, stamps, stride, from, refresh_cursor, has_history);
    }

    // Compiled once for each type of ids, for all containers of ids and gradients. `sources`: the rows of
    // `gradients` that belong to the ids; null if they are in the order of the ids.
    template <class Id>
    void apply(memory_type const& rows, std::span<Id const> ids, std::uint32_t const* sources,
               std::span<storage const> gradients, step_options const& options) {
        auto const shares =
            engine_.group(updater_.backend(), ids, sources, gradients, width(), num_rows(), options_, row_bytes());
        auto const [first_due, last_due] = stale_rows();
        engine_.template reserve<detail::row_update<Updater, view_type, Id>>(shares, width(), last_due - first_due);
        gradstep::clock const before = updater_.clock();
        auto const step = updater_.next_step(options);
        {
            // The application's pool can throw. Rows that have caught up can stay so: the step has not begun.
            detail::rollback_guard begun([&] { updater_.seek(before); });
            kept_.require_kept(updater_, step.prepared().now);
            catch_up(sweep_to(rows, step.number() - 1), first_due, last_due);
            begun.dismiss();
        }
        kept_.record(
            updater_, step.prepared().now,
            num_rows()); // before the rows are updated: if the pool throws from now on, parts of the step have run
        left_out_ += engine_.left_out();
        engine_.update(updater_.backend(), shares, width(),
                       [&](detail::batch_rows<Id> const& batch) { return update_of(rows, batch, gradients, step); });
    }

    template <class Id>
    detail::row_update<Updater, view_type, Id> update_of(memory_type const& rows, detail::batch_rows<Id> const& batch,
                                                         std::span<storage const> gradients,
                                                         step<Updater> const& step) const {
        return detail::make_row_update<view_type>(updater_, step.prepared(), shape_.at(rows), batch, gradients,
                                                  kept_.view(step.number() - 1), options_, num_rows(),
                                                  held_row_bytes());
    }

    // `step`: the last step before the rows join; 0 if they will catch up on all steps.
    detail::row_begin<Updater> beginning(memory_type const& rows, bool state, std::int64_t step) const {
        return {shape_.at(rows), detail::arriving<compute>(updater_.rule(), step),
                static_cast<std::uint32_t>(updater_.clock().step), state};
    }
    std::int64_t arrival(bool catches_up) const { return catches_up ? 0 : updater_.clock().step; }
    // Rows [first, last) before their first step. The values do not change if `initial` is null.
    void begin_rows(memory_type const& rows, initial_values const* initial, std::uint64_t first, std::uint64_t last,
                    bool catches_up) const {
        engine::begin(updater_.backend(), initial, beginning(rows, true, arrival(catches_up)), first, last,
                      row_bytes());
    }
    // The same in zeroed memory: zeros are not written, so that a large table uses pages only for active rows.
    void begin_zeroed_rows(memory_type const& rows, initial_values const& initial, std::uint64_t first,
                           std::uint64_t last, bool catches_up) const {
        bool const values = !detail::is_zero(initial), arrives = arrival(catches_up) != 0,
                   state = traits::has_master || (arrives && detail::keeps_average<rule_type>) ||
                           !detail::begins_at_zero<compute>(updater_.rule()),
                   stamps = has_stamps && updater_.clock().step != 0;
        if (values || state || stamps)
            engine::begin(updater_.backend(), values ? &initial : nullptr, beginning(rows, state, arrival(catches_up)),
                          first, last, row_bytes());
    }
    // The initial values of rows that are added after construction.
    initial_values later_rows() const { return options_.initial.is_container() ? initial_values{} : options_.initial; }

    Updater updater_;
    CatchUp catch_up_;
    table_options options_;
    shape_type shape_;
    kept kept_;
    std::uint64_t left_out_ = 0;
    engine engine_; // scratch memory of updates; allocated before anything is written
};
template <class Updater, std::integral Rows, std::integral Width>
row_updater(Updater const&, Rows, Width) -> row_updater<Updater, touch_only>;
template <class Updater, std::integral Rows, std::integral Width, class CatchUp>
row_updater(Updater const&, Rows, Width, CatchUp) -> row_updater<Updater, CatchUp>;
template <class Updater, std::integral Rows, std::integral Width, class CatchUp>
row_updater(Updater const&, Rows, Width, CatchUp, table_options) -> row_updater<Updater, CatchUp>;

} // namespace GRADSTEP_ISA
} // namespace gradstep
