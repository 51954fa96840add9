#pragma once
#include <gradstep/keyed/core.hpp>
#include <gradstep/keyed/state.hpp>
#include <gradstep/table.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A row of a keyed_table, as eviction functions see it, with all steps applied. The memory belongs
/// to the table and is valid until the call ends.
template <class Updater> struct keyed_row {
    std::uint64_t key;
    std::span<typename Updater::traits::storage const> values;
    /// The slots of the rule; row slots have one number.
    std::array<std::span<typename Updater::traits::state const>, Updater::slots> state;
    /// The number of steps since the last step that contained the row (`age`, modulo 2^32), and the
    /// number of such steps (`touch_count`). 0 if the table does not keep them.
    std::uint32_t age, touch_count;
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// The functions that keyed_table and any_keyed_table have alike (`Table`).
template <class Table> class keyed_rows {
public:
    /// Restores the trained values, bit for bit. Throws sequence_error if no average is applied.
    void restore() { table_rows().restore(); }
    /// Whether averages replace the values.
    bool average_is_applied() const { return table_rows().average_is_applied(); }

    /// Whether `key` has a row.
    bool contains(std::uint64_t key) const { return core_.contains(key); }
    /// The keys that have rows, in unspecified order.
    std::vector<std::uint64_t> keys() const { return core_.keys(); }
    /// Allocates memory for this many rows in total, so that adding rows allocates none. Throws
    /// value_error for more than 2^31 - 1, memory_error.
    template <std::integral Rows> void reserve(Rows rows) { core_.reserve_rows(detail::counted("rows", rows, 0)); }
    /// The number of rows for which memory is allocated.
    std::uint64_t capacity() const { return table_rows().capacity(); }
    /// Applies the pending steps of every row, in parallel.
    void flush() { table_rows().flush(); }

    /// Evicts the rows whose last step was before `step`, and returns their number. Held rows
    /// (`hold`) stay. Rows from the end of the table move into the gaps, with pending steps
    /// applied; otherwise the remaining rows do not change. Visits every row once. Throws
    /// sequence_error if last_touches are not kept, memory_error; the table is then unchanged.
    std::uint64_t evict_older_than(std::int64_t step) { return core_.evict_older_than(step); }
    /// Evicts the least recently updated rows until there are at most `rows`, and returns how many
    /// it evicted. If several are equally old, it evicts the larger keys. It temporarily needs at
    /// least 24 bytes per row.
    std::uint64_t evict_to(std::uint64_t rows) { return core_.evict_to(rows); }

    /// Writes a checkpoint to a safetensors file: the contents as for `table::save`, with the keys,
    /// the counts of admission, and the evicted keys. Holds are not saved. A header-only program
    /// must include gradstep/checkpoint.hpp. Throws the errors of `table::save`.
    void save(std::string const& file) const { detail::save_file(file, static_cast<Table const&>(*this)); }
    /// Resumes from a file of `save`, bit for bit. The saved table must have the same width,
    /// element, rule, catch-up policy, sketch and admit_seed, and can have any rows. Throws the
    /// errors of `table::load`; the table is then unchanged, since rows are read into new memory.
    void load(std::string const& file) { detail::load_file(file, static_cast<Table&>(*this)); }
    /// Loads the parts that `options` select (gradstep/saved/load_options.hpp); the name is
    /// "values". Returns a load_report. Throws the same errors. With another name for "values" it
    /// loads one parameter from a file of many.
    auto load(std::string const& file, load_options const& options) {
        return detail::load_file(file, static_cast<Table&>(*this), options);
    }

    /// Sets the clock to the progress of a run, as `table::seek`, but not to an earlier step than
    /// now: rows would have been updated, and keys evicted, in the future. Rows age by the steps
    /// between. Also throws value_error for such a step, and for one after 2^62.
    void seek(gradstep::clock const& at) { core_.seek(at); }
    /// The number of rows, `num_rows()`; the elements of a row, `width()`; the `clock()`; the
    /// `options()`; and the counts of events, `counts()`.
    std::uint64_t num_rows() const { return table_rows().num_rows(); }
    std::size_t width() const { return table_rows().width(); }
    gradstep::clock clock() const { return table_rows().clock(); }
    keyed_options const& options() const { return core_.options; }
    keyed_counts counts() const { return core_.all_counts(); }
    /// The memory of the index in bytes.
    std::size_t index_bytes() const { return core_.index.bytes(); }
    /// The parts of this object, without checks, for gradstep's own code (`striped` and
    /// checkpoints).
    detail::keyed_core& core() { return core_; }
    detail::keyed_core const& core() const { return core_; }

protected:
    explicit keyed_rows(detail::keyed_core&& core) : core_(std::move(core)) {}
    // By their numbers.
    detail::table_core& table_rows() { return core_.stored; }
    detail::table_core const& table_rows() const { return core_.stored; }

    detail::keyed_core core_;
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// The keys of a call.
template <class Updater, class Keys> std::span<std::uint64_t const> keys_of(Keys& keys) {
    using given = std::remove_const_t<element_type<Keys>>;
    static_assert(std::is_integral_v<given> && sizeof(given) == 8,
                  "gradstep: keys: they are of another type; expected uint64 or int64");
    given_ids const ids = ids_of<Updater>(keys);
    require_countable(ids.size(), "keys");
    return ids.visit([](auto const& of_type) -> std::span<std::uint64_t const> {
        return {reinterpret_cast<std::uint64_t const*>(of_type.data()), of_type.size()};
    });
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

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
template <class Updater, class CatchUp> class keyed_table : public keyed_rows<keyed_table<Updater, CatchUp>> {
    using base = keyed_rows<keyed_table>;
    using base::core_, base::table_rows;
    using kernels = detail::table_kernels_of<Updater, CatchUp>;
    using traits = typename Updater::traits;
    static_assert(kernels::on_host, "gradstep: keyed_table: the index is in host memory, and the backend is on a "
                                    "device; expected a backend of the host");

public:
    /// The types of the optimizer (`updater_type`), of a value (`storage`) and of an element of the
    /// state (`state_type`) in memory.
    using updater_type = Updater;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    /// The result of `changed_since`.
    using changes_type = row_changes<Updater>;

    /// Copies the policies of `optimizer`; the clock starts at 0, and there are no rows. Throws
    /// value_error for numbers out of range, and for initial values in a container, which has no
    /// values for keys.
    template <std::integral Width>
    keyed_table(Updater const& optimizer, Width width, CatchUp catch_up = {}, keyed_options const& options = {})
        : base(made(optimizer, static_cast<std::size_t>(detail::counted("width", width, 1)), catch_up, options)) {}

    /// Updates the rows of `keys` by one step. Keys are uint64, or int64 with the same bits.
    /// gradient_rows contains keys.size() x width elements. See `row_updater::update` for the step
    /// and its errors. New keys are admitted first, in order, and each appearance counts. If the
    /// call throws before the step, no key has been added or counted.
    template <class Keys, class Gradients>
    void update(Keys&& keys, Gradients&& gradient_rows, step_options const& options = {}) {
        table_rows().require_trained("update");
        auto const names = detail::keys_of<Updater>(keys);
        core_.update(names, detail::gradients_of<Updater>(gradient_rows), names.size(), "keys", options);
    }
    /// The same with pooled gradients (embedding bags): row b of `bag_rows` is the gradient of
    /// every key of bag b (row_updater::update), times the weight of the key if `bags` has weights.
    template <class Keys, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(Keys&& keys, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {},
                bag_options const& bags = {}) {
        table_rows().require_trained("update");
        auto const names = detail::keys_of<Updater>(keys);
        detail::given_ids const begins = detail::ids_of<Updater>(offsets);
        auto const given = detail::gradients_of<Updater>(bag_rows);
        core_.update(names, given, given.size / this->width(), "bags", options, &begins, bags);
    }

    /// Returns a copy of the row of `key` with all steps applied; its initial values if it has no
    /// row.
    std::vector<storage> row(std::uint64_t key) const {
        auto out = core_.with_memory(1, [&] { return std::vector<storage>(this->width()); });
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
        read<storage>(keys, out, false);
    }
    /// Writes the pooled rows of bags of keys, `width` elements for each bag (table::bags).
    template <class Keys, class Offsets, class Out>
    void bags(Keys&& keys, Offsets&& offsets, Out&& out, bag_options const& bags = {}) const {
        detail::require_lasting<Out>();
        auto const names = detail::keys_of<Updater>(keys);
        auto const to = detail::as_span<storage, host_memory>(out);
        core_.read_bags(names, detail::ids_of<Updater>(offsets), detail::extent::of("out", to), bags);
    }
    /// Writes the averages of several keys that the rule keeps (`averaged`) to the caller's memory;
    /// see `table::averages`.
    template <class Keys, class Out> void averages(Keys&& keys, Out&& out) const {
        detail::require_lasting<Out>();
        table_rows().require_trained("averages");
        if constexpr (detail::require_average<typename Updater::rule_type>()) read<state_type>(keys, out, true);
    }
    /// Replaces all values by their averages until the returned object is destroyed or you call
    /// `restore()`; see `table::apply_average`.
    [[nodiscard]] applied_average<keyed_table> apply_average() {
        table_rows().require_trained("apply_average");
        if constexpr (detail::require_average<typename Updater::rule_type>()) table_rows().apply_average();
        return applied_average<keyed_table>(*this);
    }
    /// Resets the rows of `keys`; keys without a row are allowed. `changed_since` reports this as a
    /// change, and the rows' age starts again. It is not a step with these rows: `touch_counts` do
    /// not change.
    template <class Keys> void reset(Keys&& keys) {
        table_rows().require_trained("reset");
        core_.reset(detail::keys_of<Updater>(keys));
    }

    using base::evict_to;
    /// Evicts the rows for which chosen(row) returns true, where `row` is a `keyed_row`, and
    /// returns their number. First it applies the pending steps of all rows (`flush`). It then
    /// calls `chosen` once for every row that is not held. `chosen` can save the content of a row
    /// before it is evicted.
    template <class Chosen> std::uint64_t evict(Chosen const& chosen) {
        return core_.evict_rows_by([&](std::uint64_t id) { return static_cast<bool>(chosen(row_at(id))); });
    }
    /// Evicts the rows with the lowest score(row) until there are at most `rows`. You compute the
    /// score from a `keyed_row`, after a flush of all rows. If scores are equal, the larger keys
    /// are evicted.
    template <class Score> std::uint64_t evict_to(std::uint64_t rows, Score const& score) {
        return core_.evict_to_by(rows, [&](std::uint64_t id) { return static_cast<double>(score(row_at(id))); });
    }
    /// Protects rows from eviction. Hold rows between a read and the update that depends on it.
    /// (distributed::server holds the rows that its workers have pulled while an `after_every` task
    /// runs.) Holds are counted: each needs one `release`. You can hold keys without a row.
    template <class Keys> void hold(Keys&& keys) { core_.hold(detail::keys_of<Updater>(keys)); }
    /// Ends a hold of each key. Throws value_error for a key that is not held.
    template <class Keys> void release(Keys&& keys) { core_.release(detail::keys_of<Updater>(keys)); }

    /// Returns the rows that were updated or evicted since step `since` (inclusive), in their
    /// current state. A replica at that step applies them (`apply`) to become equal to this table.
    /// 0 means all rows. Rows are sent with pending steps applied; with row_content::state they are
    /// also applied in this table.
    ///
    /// Throws sequence_error if last_touches are not kept. Throws value_error if `since` is in the
    /// future, or so old that not all evictions are remembered: then send all rows. At least the
    /// last 2^15 evictions are remembered, and half as many as there are rows.
    changes_type changed_since(std::int64_t since, row_content content = row_content::values) {
        changes_type out;
        core_.with_memory(this->num_rows(), [&] {
            std::vector<std::int32_t> const ids = core_.begin_changes(out, since, content);
            out.values.resize(ids.size() * this->width());
            if (content == row_content::state)
                for (std::size_t i = 0; i < Updater::slots; ++i)
                    out.state[i].resize(ids.size() * (Updater::is_row_slot(i) ? 1 : this->width()));
            core_.copy_changes(ids, content, core_.columns_of(out, out.columns()));
        });
        return out;
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
    void apply(changes_type const& changes) {
        table_rows().require_trained("apply");
        core_.check_changes(changes);
        changes.require_sizes("apply");
        core_.with_memory(changes.keys.size(),
                          [&] { core_.apply(changes, core_.columns_of(changes, changes.columns())); });
    }

    /// The policies.
    Updater const& optimizer() const { return static_cast<kernels const&>(table_rows().kernels()).updater; }

private:
    static detail::keyed_core made(Updater const& optimizer, std::size_t width, CatchUp const& catch_up,
                                   keyed_options const& options) {
        return detail::rethrow_as<std::bad_alloc>(
            [&] { return detail::keyed_core(std::make_unique<kernels>(optimizer, catch_up), width, options); },
            [&](auto const&) { detail::refuse_row_memory(0, width, sizeof(storage) + Updater::state_bytes(1)); });
    }
    template <class T, class Keys, class Out> void read(Keys& keys, Out& out, bool averages) const {
        auto const names = detail::keys_of<Updater>(keys);
        auto const to = detail::as_span<T, host_memory>(out);
        table_rows().rows().check_room(table_rows().place(), detail::extent::of("out", to), to.size(), names.size());
        core_.read(names, to.data(), averages);
    }
    keyed_row<Updater> row_at(std::uint64_t id) const {
        std::array<std::byte*, detail::row_addresses<Updater>::columns> at;
        detail::find_row(table_rows().place(), id, at.data());
        keyed_row<Updater> out;
        out.key = core_.row_keys()[id];
        out.values = {reinterpret_cast<storage const*>(at[0]), this->width()};
        for (std::size_t i = 0; i < Updater::slots; ++i)
            out.state[i] = {reinterpret_cast<state_type const*>(at[1 + i]),
                            Updater::is_row_slot(i) ? 1 : this->width()};
        out.age = core_.age_at(id);
        out.touch_count = core_.touch_count_at(id);
        return out;
    }
};

template <class Updater, std::integral Width> keyed_table(Updater const&, Width) -> keyed_table<Updater, touch_only>;
template <class Updater, std::integral Width, class CatchUp>
keyed_table(Updater const&, Width, CatchUp) -> keyed_table<Updater, CatchUp>;
template <class Updater, std::integral Width, class CatchUp>
keyed_table(Updater const&, Width, CatchUp, keyed_options) -> keyed_table<Updater, CatchUp>;
} // namespace gradstep::inline GRADSTEP_ISA
