#pragma once
#include <gradstep/keyed/core.hpp>
#include <gradstep/keyed/options.hpp>
#include <gradstep/keyed/state.hpp>
#include <gradstep/rows/row_changes.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A table with 64-bit keys instead of row numbers, for example for hashed features. It allocates
/// memory only for the keys that it has seen.
///
///     gs::keyed_table features{optimizer, width, gs::exact{},
///                              {.initial = gs::normal{0, 0.01, seed}, .admit_after = 3}};
///     features.update(keys, gradient_rows);
///     features.rows(keys, out);
///
/// It is an index in front of the rows of a `table`. Rules, elements, catch-up policies and
/// duplicate-id policies are the same, and each row is computed in the same way. Random initial
/// values, rounding and noise depend on the key, not on the row's number. A row begins in the
/// first step that contains its key after admission: earlier steps are not pending for it. Keys
/// without a row (never seen, not admitted, or evicted) read as their initial values. CPU backends
/// only; at most 2^31 - 1 rows.
///
/// Bytes per row in addition to values and state: 8 for the key, about 22 for the index, 4 for a
/// stamp unless touch_only, 4 with last_touches, 4 with touch_counts, 4 with row_steps. Growth
/// copies no rows. The memory of evicted rows is reused for new ones, and not returned to the
/// system.
///
/// Functions that change the table are not thread-safe. `row`, `rows` and other const functions can
/// run concurrently.
///
/// Include gradstep/keyed_table.hpp, which defines all of it.
template <class Updater, class CatchUp> class keyed_table {
    using core_type = detail::keyed_core<Updater, CatchUp>;

public:
    /// The types of the optimizer (`updater_type`), of a value (`storage`) and of an element of the
    /// state (`state_type`) in memory.
    using updater_type = Updater;
    using storage = typename core_type::storage;
    using state_type = typename core_type::state_type;
    /// The result of `changed_since`.
    using changes_type = row_changes<Updater>;

    /// Copies the policies of `optimizer`; the clock starts at 0, and there are no rows. Throws
    /// value_error for numbers out of range, and for initial values in a container, which has no
    /// values for keys.
    template <std::integral Width>
    keyed_table(Updater const& optimizer, Width width, CatchUp catch_up = {}, keyed_options const& options = {})
        : core_(optimizer, width, catch_up, options) {}

    /// Updates the rows of `keys` by one step. Keys are uint64, or int64 with the same bits.
    /// gradient_rows contains keys.size() x width elements. See `row_updater::update` for the step
    /// and its errors. New keys are admitted first, in order, and each appearance counts. If the
    /// call throws before the step, no key has been added or counted.
    template <class Keys, class Gradients>
    void update(Keys&& keys, Gradients&& gradient_rows, step_options const& options = {}) {
        table_rows().require_trained("update");
        auto const names = core_type::keys_of(keys);
        auto const given = shape().gradients(table_rows().binding(), gradient_rows, names.size(), "keys", options);
        core_.apply(names, nullptr, given, options);
        shape().zero(core_.on(), gradient_rows, options);
    }
    /// The same with pooled gradients (embedding bags): row b of `bag_rows` is the gradient of
    /// every key of bag b (row_updater::update).
    template <class Keys, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(Keys&& keys, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {}) {
        table_rows().require_trained("update");
        auto const names = core_type::keys_of(keys);
        auto const offset_span = shape().ids_of(offsets);
        std::size_t const bags = detail::traits_of<Gradients>::size(bag_rows) / width();
        auto const given = shape().gradients(table_rows().binding(), bag_rows, bags, "bags", options);
        auto const* const sources = core_.with_memory(
            names.size(), [&] { return table_rows().core().engine.bags(core_.on(), offset_span, names.size(), bags); });
        core_.apply(names, sources, given, options);
        shape().zero(core_.on(), bag_rows, options);
    }

    /// Returns a copy of the row of `key` with all steps applied; its initial values if it has no
    /// row.
    std::vector<storage> row(std::uint64_t key) const {
        auto out = core_.with_memory(1, [&] { return std::vector<storage>(width()); });
        row(key, out);
        return out;
    }
    /// The same, written to the caller's memory of `width` elements.
    template <class Out> void row(std::uint64_t key, Out&& out) const {
        detail::require_lasting<Out>();
        rows(std::span<std::uint64_t const>(&key, 1), out);
    }
    /// The same for several keys, in the order of `keys`, written to the caller's memory of
    /// keys.size() x width elements.
    template <class Keys, class Out> void rows(Keys&& keys, Out&& out) const {
        detail::require_lasting<Out>();
        core_.template read_by<storage>(table_rows().reader(), core_type::keys_of(keys), out);
    }
    /// Writes the averages of several keys that the rule keeps (`averaged`) to the caller's memory;
    /// see `table::averages`.
    template <class Keys, class Out> void averages(Keys&& keys, Out&& out) const {
        detail::require_lasting<Out>();
        table_rows().require_trained("averages");
        if constexpr (detail::require_average<typename Updater::rule_type>())
            core_.template read_by<state_type>(table_rows().core().average_reader(table_rows().binding()),
                                               core_type::keys_of(keys), out);
    }
    /// Replaces all values by their averages until the returned object is destroyed or you call
    /// `restore()`; see `table::apply_average`.
    [[nodiscard]] auto apply_average() { return table_rows().apply_average(); }
    /// Restores the trained values, bit for bit. Throws sequence_error if no average is applied.
    void restore() { table_rows().restore(); }
    /// Whether averages replace the values.
    bool average_is_applied() const { return table_rows().average_is_applied(); }

    /// Whether `key` has a row.
    bool contains(std::uint64_t key) const { return core_.index.find(key) != detail::key_index::none; }
    /// The keys that have rows, in unspecified order.
    std::vector<std::uint64_t> keys() const { return core_.keys(); }
    /// Allocates memory for this many rows in total, so that adding rows allocates none. Throws
    /// value_error for more than 2^31 - 1, memory_error.
    template <std::integral Rows> void reserve(Rows rows) {
        table_rows().require_trained("reserve");
        std::uint64_t const wanted = detail::counted("rows", rows, 0);
        if (wanted > core_type::most_rows)
            detail::fail<value_error>({"reserve: rows"}, {wanted, " is out of range"},
                                      {"at most ", core_type::most_rows});
        core_.with_memory(wanted, [&] { table_rows().store().reserve(wanted); });
    }
    /// The number of rows for which memory is allocated.
    std::uint64_t capacity() const { return table_rows().store().capacity(); }
    /// Applies the pending steps of every row, in parallel.
    void flush() { table_rows().flush(); }
    /// Resets the rows of `keys`; keys without a row are allowed. `changed_since` reports this as a
    /// change, and the rows' age starts again. It is not a step with these rows: `touch_counts` do
    /// not change.
    template <class Keys> void reset(Keys&& keys) {
        table_rows().require_trained("reset");
        core_.reset(core_type::keys_of(keys));
    }

    /// Evicts the rows whose last step was before `step`, and returns their number. Held rows
    /// (`hold`) stay. Rows from the end of the table move into the gaps, with pending steps
    /// applied; otherwise the remaining rows do not change. Visits every row once. Throws
    /// sequence_error if last_touches are not kept, memory_error; the table is then unchanged.
    std::uint64_t evict_older_than(std::int64_t step) { return core_.evict_older_than(step); }
    /// Evicts the rows for which chosen(row) returns true, where `row` is a `keyed_row`, and
    /// returns their number. First it applies the pending steps of all rows (`flush`). It then
    /// calls `chosen` once for every row that is not held. `chosen` can save the content of a row
    /// before it is evicted.
    template <class Chosen> std::uint64_t evict(Chosen const& chosen) { return core_.evict(chosen); }
    /// Evicts the least recently updated rows until there are at most `rows`, and returns how many
    /// it evicted. If several are equally old, it evicts the larger keys. It temporarily needs at
    /// least 24 bytes per row.
    std::uint64_t evict_to(std::uint64_t rows) { return core_.evict_to(rows); }
    /// The same for the rows with the lowest score(row), a number that you compute from a
    /// `keyed_row`, after a flush of all rows. If scores are equal, the larger keys are evicted.
    template <class Score> std::uint64_t evict_to(std::uint64_t rows, Score const& score) {
        return core_.evict_to(rows, score);
    }
    /// Protects rows from eviction. Hold rows between a read and the update that depends on it.
    /// (distributed::server holds the rows that its workers have pulled while an `after_every` task
    /// runs.) Holds are counted: each needs one `release`. You can hold keys without a row.
    template <class Keys> void hold(Keys&& keys) { core_.hold(core_type::keys_of(keys)); }
    /// Ends a hold of each key. Throws value_error for a key that is not held.
    template <class Keys> void release(Keys&& keys) { core_.release(core_type::keys_of(keys)); }

    /// Returns the rows that were updated or evicted since step `since` (inclusive), in their
    /// current state. A replica at that step applies them (`apply`) to become equal to this table.
    /// 0 means all rows. Rows are sent with pending steps applied; with row_content::state they are
    /// also applied in this table.
    ///
    /// Throws sequence_error if last_touches are not kept. Throws value_error if `since` is in the
    /// future, or so old that not all evictions are remembered: then send all rows. At least the
    /// last 2^15 evictions are remembered, and half as many as there are rows.
    changes_type changed_since(std::int64_t since, row_content content = row_content::values) {
        return core_.changed_since(since, content);
    }
    /// Applies the changes of another table with the same policies, options and width. This table
    /// then equals the other one, if it was equal to it at step `changes.since` or later. Changes
    /// since 0 replace everything, and need memory for a second table. With a history, rows are
    /// rounded at other steps than in the other table; without one, they have the same bits.
    /// Admission's counts are not sent. Ages and touch_counts are sent with row_content::state
    /// only; otherwise an applied row has age 0.
    ///
    /// Throws size_error for another width. Throws sequence_error for changes that begin after this
    /// table's step or end before it. Throws value_error if they end after step 2^62. Throws
    /// value_error if they end more than max_history / 2 - 1 steps after this table's step, except
    /// for changes since 0 or without a history. Throws memory_error. The table is then unchanged.
    void apply(changes_type const& changes) { core_.apply(changes); }

    /// Writes a checkpoint to a safetensors file: the contents as for `table::save`, with the keys,
    /// the counts of admission, and the evicted keys. Holds are not saved. A header-only program
    /// must include gradstep/checkpoint.hpp. Throws the errors of `table::save`.
    void save(std::string const& file) const { detail::save_file(file, *this); }
    /// Resumes from a file of `save`, bit for bit. The saved table must have the same width,
    /// element, rule, catch-up policy, sketch and admit_seed, and can have any rows. Throws the
    /// errors of `table::load`; the table is then unchanged, since rows are read into new memory.
    void load(std::string const& file) { detail::load_file(file, *this); }
    /// Loads the parts that `options` select (gradstep/saved/load_options.hpp); the name is
    /// "values". Returns a load_report. Throws the same errors. With another name for "values" it
    /// loads one parameter from a file of many.
    auto load(std::string const& file, load_options const& options) { return detail::load_file(file, *this, options); }

    /// The number of rows, `num_rows()`; the elements of a row, `width()`; the `clock()`; the
    /// policies, `optimizer()`; the `options()`; and the counts of events, `counts()`.
    std::uint64_t num_rows() const { return table_rows().num_rows(); }
    std::size_t width() const { return table_rows().width(); }
    gradstep::clock clock() const { return table_rows().clock(); }
    Updater const& optimizer() const { return table_rows().optimizer(); }
    keyed_options const& options() const { return core_.options; }
    keyed_counts counts() const { return core_.all_counts(); }
    /// The memory of the index in bytes.
    std::size_t index_bytes() const { return core_.index.bytes(); }
    /// The parts of this object, without checks, for gradstep's own code (`striped` and
    /// checkpoints).
    core_type& core() { return core_; }
    core_type const& core() const { return core_; }

private:
    // By their numbers.
    auto& table_rows() { return core_.stored; }
    auto const& table_rows() const { return core_.stored; }
    auto const& shape() const { return core_.shape(); }

    core_type core_;
};

template <class Updater, std::integral Width> keyed_table(Updater const&, Width) -> keyed_table<Updater, touch_only>;
template <class Updater, std::integral Width, class CatchUp>
keyed_table(Updater const&, Width, CatchUp) -> keyed_table<Updater, CatchUp>;
template <class Updater, std::integral Width, class CatchUp>
keyed_table(Updater const&, Width, CatchUp, keyed_options) -> keyed_table<Updater, CatchUp>;
} // namespace gradstep::inline GRADSTEP_ISA
