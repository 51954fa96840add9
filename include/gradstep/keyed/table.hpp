#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/keyed/admission.hpp>
#include <gradstep/keyed/eviction_log.hpp>
#include <gradstep/keyed/key_index.hpp>
#include <gradstep/keyed/options.hpp>
#include <gradstep/keyed/state.hpp>
#include <gradstep/sparse/row_changes.hpp>
#include <gradstep/table.hpp>

namespace gradstep {

inline namespace GRADSTEP_ISA {

/// A row of a keyed_table, as eviction functions see it, with all steps applied. The memory belongs
/// to the table and is valid until the call ends.
template <class Updater> struct keyed_row {
    std::uint64_t key;
    std::span<typename Updater::traits::storage const> values;
    /// The slots of the rule; row slots have one number.
    std::array<std::span<typename Updater::traits::state const>, Updater::slots> state;
    /// The number of steps since the last one that contained the row (modulo 2^32), and the number
    /// of such steps; 0 if not kept.
    std::uint32_t age, touch_count;
};

/// A table with 64-bit keys instead of row numbers, such as hashed features: it allocates memory
/// only for keys that were seen.
///
///     gs::keyed_table features{optimizer, width, gs::exact{}, {.initial = gs::normal{0, 0.01, seed}, .admit_after = 3}};
///     features.update(keys, gradient_rows);
///     features.rows(keys, out);
///
/// An index in front of the rows of a `table`: rules, elements, catch-up policies and duplicate-id
/// policies are the same, and each row is computed in the same way. Random initial values and
/// stochastic rounding depend on the key, not on the row's number. A row begins in the first step
/// that contains its key after admission: earlier steps are not pending for it. Keys without a row
/// (never seen, not admitted, or evicted) read as their initial values. CPU backends only; at most
/// 2^31 - 1 rows.
///
/// Bytes per row in addition to values and state: 8 for the key, about 22 for the index, 4 for a
/// stamp unless touch_only, 4 with last_touches, 4 with touch_counts, 4 with row_steps. Growth
/// copies no rows. The memory of evicted rows is reused for new ones, and not returned to the
/// system.
///
/// Functions that change the table are not thread-safe. `row`, `rows` and other const functions can
/// run concurrently.
///
/// Include gradstep/keyed_table.hpp: keyed/new_keys.hpp, keyed/usage.hpp, keyed/eviction.hpp and
/// keyed/changes.hpp define members.
template <class Updater, class CatchUp> class keyed_table {
    using rows_type = table<Updater, CatchUp>;
    using core = row_updater<Updater, CatchUp>;
    using traits = typename Updater::traits;
    using backend = typename Updater::backend_type;
    using engine = typename core::engine;
    static_assert(rows_type::on_host, "gradstep: keyed_table: the index is the host's: give a host backend");

public:
    /// The same as in `table`: `updater_type`, `storage`, `state_type`.
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
        : options_(checked<Width>(options)), rows_(rows_of(optimizer, width, catch_up, options_)),
          admission_(options_.admit_after, options_.admit_probability, options_.admit_seed, options_.sketch_bytes,
                     options_.sketch_half_life) {}

    /// One step of the rows of `keys`: uint64, or int64 with the same bits; gradient_rows contains
    /// keys.size() x width elements. See `row_updater::update` for the step and its errors. New
    /// keys are admitted first, in order; each appearance counts. If it throws before the step, no
    /// key has been added or counted.
    template <class Keys, class Gradients>
    void update(Keys&& keys, Gradients&& gradient_rows, step_options const& options = {}) {
        rows_.require_trained("update");
        auto const names = keys_of(keys);
        auto const given = shape().gradients(rows_.binding(), gradient_rows, names.size(), "keys", options);
        apply(names, nullptr, given, options);
        shape().zero(on(), gradient_rows, options);
    }
    /// One step with pooled gradients: row b of `bag_rows` is the gradient of every key of bag b
    /// (row_updater::update).
    template <class Keys, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(Keys&& keys, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {}) {
        rows_.require_trained("update");
        auto const names = keys_of(keys);
        auto const offset_span = core::shape_type::ids_of(offsets);
        std::size_t const bags = detail::traits_of<Gradients>::size(bag_rows) / width();
        auto const given = shape().gradients(rows_.binding(), bag_rows, bags, "bags", options);
        auto const* const sources =
            with_memory(names.size(), [&] { return rows_.core_.engine_.bags(on(), offset_span, names.size(), bags); });
        apply(names, sources, given, options);
        shape().zero(on(), bag_rows, options);
    }

    /// Returns a copy of the row of `key` with all steps applied; its initial values if it has no
    /// row.
    std::vector<storage> row(std::uint64_t key) const {
        auto out = with_memory(1, [&] { return std::vector<storage>(width()); });
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
        read_by<storage>(rows_.reader(), keys_of(keys), out);
    }
    /// The averages that the rule keeps (`averaged`); see `table::averages`.
    template <class Keys, class Out> void averages(Keys&& keys, Out&& out) const {
        detail::require_lasting<Out>();
        rows_.require_trained("averages");
        if constexpr (detail::require_average<typename Updater::rule_type>())
            read_by<state_type>(rows_.core_.average_reader(rows_.binding()), keys_of(keys), out);
    }
    /// See `table`: averages replace all values until the returned object is destroyed or you call
    /// `restore()`.
    [[nodiscard]] auto apply_average() { return rows_.apply_average(); }
    void restore() { rows_.restore(); }
    /// Whether averages replace the values.
    bool average_is_applied() const { return rows_.average_is_applied(); }

    /// Whether `key` has a row.
    bool contains(std::uint64_t key) const { return index_.find(key) != detail::key_index::none; }
    /// The keys that have rows, in unspecified order.
    std::vector<std::uint64_t> keys() const {
        std::vector<std::uint64_t> out;
        with_memory(num_rows(), [&] { out.reserve(num_rows()); });
        shape().each_segment(rows_.binding(), [&](row_memory<Updater> const& of) {
            out.insert(out.end(), of.keys.begin(), of.keys.end());
        });
        return out;
    }
    /// Allocates memory for this many rows in total, so that adding rows allocates none. Throws
    /// value_error for more than 2^31 - 1, memory_error.
    template <std::integral Rows> void reserve(Rows rows) {
        rows_.require_trained("reserve");
        std::uint64_t const wanted = detail::counted("rows", rows, 0);
        if (wanted > most_rows)
            detail::fail<value_error>({"reserve: rows = ", wanted, ": must be at most ", most_rows});
        with_memory(wanted, [&] { rows_.store_.reserve(wanted); });
    }
    /// The number of rows for which memory is allocated.
    std::uint64_t capacity() const { return rows_.store_.capacity(); }
    /// Applies the pending steps of every row, in parallel.
    void flush() { rows_.flush(); }
    /// Resets the rows of `keys`; keys without a row are allowed. `changed_since` reports this as a
    /// change, and the rows' age starts again. It is not a step with these rows: `touch_counts` do
    /// not change.
    template <class Keys> void reset(Keys&& keys) {
        rows_.require_trained("reset");
        std::vector<std::int32_t> ids = found(keys_of(keys));
        std::erase(ids, no_row);
        rows_.core_.reset(rows_.binding(), ids);
        if (!options_.last_touches) return;
        auto const rows = places();
        for (std::int32_t const id : ids)
            *rows.at(static_cast<std::uint64_t>(id)).last_touch = static_cast<std::uint32_t>(clock().step);
    }

    /// Evicts the rows whose last step was before `step`, and returns their number. Held rows
    /// (`hold`) stay. Rows from the end of the table move into the gaps, with pending steps
    /// applied; otherwise the remaining rows do not change. Visits every row once. Throws
    /// sequence_error if last_touches are not kept, memory_error; the table is then unchanged.
    std::uint64_t evict_older_than(std::int64_t step);
    /// Evicts the rows for which chosen(row), with a `keyed_row`, is true. First the pending steps
    /// of all rows are applied (`flush`). It is called once for every row that is not held. Rows
    /// for which it returns true are evicted, so it can save their content.
    template <class Chosen> std::uint64_t evict(Chosen const& chosen);
    /// Evicts rows until there are at most `rows`: the least recently updated ones, or the ones
    /// with the lowest score(row), a number computed from a `keyed_row` after a flush of all rows.
    /// Of equal ones, the larger keys are evicted. It needs at least 24 bytes per row temporarily.
    std::uint64_t evict_to(std::uint64_t rows);
    template <class Score> std::uint64_t evict_to(std::uint64_t rows, Score const& score);
    /// Held rows are not evicted. Hold rows between a read and the update that depends on it.
    /// (distributed::server holds the rows that its workers have pulled while an `after_every` task
    /// runs.) Holds are counted: each needs one `release`, which throws value_error for a key that
    /// is not held. You can hold keys without a row.
    template <class Keys> void hold(Keys&& keys);
    template <class Keys> void release(Keys&& keys);

    /// The rows that were updated or evicted since step `since` (inclusive), as they are now: what
    /// a replica at that step needs to become this table (`apply`). 0: all rows. Rows are sent with
    /// pending steps applied; with row_content::state they are also applied in this table. Throws
    /// sequence_error if last_touches are not kept. Throws value_error if `since` is in the future,
    /// or so old that not all evictions are remembered (at least the last 2^15, and half as many as
    /// there are rows): then send all rows.
    changes_type changed_since(std::int64_t since, row_content content = row_content::values);
    /// Applies the changes of another table with the same policies, options and width. This table
    /// then equals the other one, if it was equal to it at step `changes.since` or later. Changes
    /// since 0 replace everything, in new memory beside the old. With a history, rows are rounded
    /// at other steps than in the other table; without one, they have the same bits. Admission's
    /// counts are not sent; ages and touch_counts are sent with row_content::state only, otherwise
    /// an applied row has age 0.
    ///
    /// Throws size_error for another width. Throws sequence_error for changes that begin after this
    /// table's step or end before it. Throws value_error if they end after step 2^62, or more steps
    /// after it than half of the history contains (max_history / 2 - 1; not since 0, nor without a
    /// history). Throws memory_error. The table is then unchanged.
    void apply(changes_type const& changes);

    /// Writes all that a run needs to go on to a safetensors file (header-only programs include
    /// gradstep/io/checkpoint.hpp): the rows as of a `table`, with their keys; what admission has
    /// counted, and which rows were evicted. Which keys are held is not kept. Throws as
    /// `table::save`.
    void save(std::string const& file) const { detail::save_file(file, *this); }
    /// Resumes from a file of `save`, bit for bit. The saved table must have the same width,
    /// element, rule, catch-up policy, sketch and admit_seed, and can have any rows. Throws the
    /// errors of `table::load`; the table is then unchanged, since rows are read into new memory.
    void load(std::string const& file) { detail::load_file(file, *this); }
    /// Loads the parts that `options` select (gradstep/io/load_options.hpp); the name is "values".
    /// Returns a load_report. Throws the same errors. With another name for "values" it loads one
    /// parameter from a file of many.
    auto load(std::string const& file, load_options const& options) { return detail::load_file(file, *this, options); }

    /// The shape, `num_rows()` rows of `width()` elements; the `clock()`; the policies,
    /// `optimizer()`; the `options()`; the events of keys, `counts()`.
    std::uint64_t num_rows() const { return rows_.num_rows(); }
    std::size_t width() const { return rows_.width(); }
    gradstep::clock clock() const { return rows_.clock(); }
    Updater const& optimizer() const { return rows_.optimizer(); }
    keyed_options const& options() const { return options_; }
    keyed_counts counts() const {
        keyed_counts out = counts_;
        out.left_out += rows_.gradients_left_out();
        return out;
    }
    /// The memory of the index in bytes.
    std::size_t index_bytes() const { return index_.bytes(); }

private:
    template <class> friend struct detail::state_access;
    template <class> friend class striped;
    using row_type = detail::row_addresses<Updater>;
    using key_span = std::span<std::uint64_t const>;
    static constexpr std::uint64_t most_rows = std::numeric_limits<std::int32_t>::max();
    static constexpr std::int32_t no_row = -1;
    // A key that is excluded from the batch, before it becomes no_row.
    static constexpr std::int32_t left_out_row = -2;
    static constexpr std::int64_t latest_step = std::int64_t{1} << 62; // of changes, to which ages are added
    static_assert(static_cast<std::uint32_t>(no_row) == detail::key_index::none);

    template <class Width> static keyed_options checked(keyed_options const& options) {
        detail::check(options);
        if (options.initial.is_container())
            detail::fail<value_error>(
                "keyed_options.initial holds values: must be a number, uniform or normal, since keys have "
                "no order");
        if (options.touch_counts && !options.last_touches)
            detail::fail<value_error>(
                "keyed_options.touch_counts = true: needs last_touches, by which a step counts once");
        if (static_cast<std::uint64_t>(options.max_rows) > most_rows)
            detail::fail<value_error>({"keyed_options.max_rows = ", options.max_rows, ": must be at most ", most_rows});
        return options;
    }
    static rows_type rows_of(Updater const& optimizer, auto width, CatchUp catch_up, keyed_options const& from) {
        table_options options;
        options.initial = from.initial;
        options.duplicates = from.duplicates;
        options.row_steps = from.row_steps;
        options.ignore_id = no_row;
        options.max_history = from.max_history;
        options.id = from.id;
        options.max_norm = from.max_norm;
        core rows(optimizer, 0, width, catch_up, std::move(options));
        rows.shape_.keyed = {true, from.last_touches, from.touch_counts};
        return rows_type(std::move(rows));
    }

    backend const& on() const { return rows_.optimizer().backend(); }
    auto const& shape() const { return rows_.shape(); }
    detail::rows_at<Updater> places() const { return shape().at(rows_.binding()); }

    template <class Keys> static key_span keys_of(Keys& keys) {
        using given = std::remove_const_t<detail::element_type<Keys>>;
        static_assert(std::is_integral_v<given> && sizeof(given) == 8, "gradstep: keys are uint64 or int64");
        auto const ids = core::shape_type::ids_of(keys);
        detail::require_countable(ids.size(), "keys");
        return {reinterpret_cast<std::uint64_t const*>(ids.data()), ids.size()};
    }
    // The rows of keys; no_row if they have none.
    void find(key_span keys, std::span<std::int32_t> to) const {
        auto* const slots = reinterpret_cast<std::uint32_t*>(to.data());
        constexpr std::size_t bytes = 64; // a cache line of the index per key
        std::size_t const parts = std::max<std::size_t>(1, on().parts_for(keys.size() * bytes));
        on().for_each_part(parts, [&](std::size_t p) {
            std::size_t const first = p * keys.size() / parts, last = (p + 1) * keys.size() / parts;
            index_.find(keys.subspan(first, last - first), slots + first);
        });
    }
    std::vector<std::int32_t> found(key_span keys) const {
        auto ids = with_memory(keys.size(), [&] { return std::vector<std::int32_t>(keys.size()); });
        find(keys, ids);
        return ids;
    }
    // Calls f(), with a memory_error for a failed allocation.
    template <class F> decltype(auto) with_memory(std::uint64_t rows, F const& f) const {
        return rows_type::with_memory_for(rows_.core_, rows, f);
    }

    template <class T, class Reader, class Out> void read_by(Reader const& reader, key_span keys, Out& out) const {
        auto const to = shape().template room<T>(rows_.binding(), keys.size(), out);
        std::vector<std::int32_t> const ids = found(keys);
        constexpr bool as_stored = std::is_same_v<T, storage>;
        std::vector<storage> initial;
        if constexpr (!as_stored) with_memory(1, [&] { initial.resize(width()); });
        engine::read(
            on(), reader, std::span<std::int32_t const>(ids), to.data(), rows_.core_.row_bytes(),
            [](std::int32_t id) { return id != no_row; },
            [&](std::uint64_t k, T* row) {
                if constexpr (as_stored) detail::fill_rows(options_.initial, row, keys[k], 1, width());
            });
        // The values as they would have been stored; by one thread, which has memory for them.
        if constexpr (!as_stored)
            for (std::size_t k = 0; k < keys.size(); ++k) {
                if (ids[k] != no_row) continue;
                detail::fill_rows(options_.initial, initial.data(), keys[k], 1, width());
                for (std::size_t i = 0; i < width(); ++i) to[k * width() + i] = T(detail::widen(initial[i]));
            }
    }

    // One step. New keys come first; if something throws before the step has begun, they are
    // removed.
    void apply(key_span keys, std::uint32_t const* sources, std::span<storage const> gradients,
               step_options const& options);
    // Takes over the counts of the rows' own code, for a checkpoint.
    void settle_counts() {
        counts_ = counts();
        rows_.core_.left_out_ = 0;
    }
    void finish_step(std::span<std::int32_t const> ids) {
        admission_.commit();
        admission_.age(clock().step);
        touch(ids);
    }
    // Marks the ids of keys with non-finite gradients as left_out_row, so that `admit` ignores
    // them, and returns their number. Throws nonfinite_error if the options require it.
    std::uint64_t leave_out_nonfinite(key_span keys, std::span<std::int32_t> ids, std::uint32_t const* sources,
                                      std::span<storage const> gradients) const;
    // Adds rows for the new, admitted keys among `keys`; `ids` contains the existing rows. The new
    // keys are in `added_`, so that the caller can undo it.
    void admit(key_span keys, std::span<std::int32_t> ids);
    std::uint64_t most() const {
        return options_.max_rows == 0 ? most_rows : static_cast<std::uint64_t>(options_.max_rows);
    }
    bool is_new(std::uint64_t key, std::int32_t id) const { return id == no_row && key != options_.ignore_key; }
    std::size_t count_new(key_span keys, std::span<std::int32_t const> ids) const {
        std::size_t count = 0;
        for (std::size_t k = 0; k < keys.size(); ++k) count += is_new(keys[k], ids[k]);
        return count;
    }
    // Undoes `admit`.
    void forget_new(std::uint64_t rows_before, keyed_counts const& counts_before) noexcept;
    // Allocates memory for rows up to `rows`, and adds them.
    void grow(std::uint64_t rows) {
        with_memory(rows, [&] { rows_.store_.reserve(rows); });
        rows_.core_.grow(rows);
        rows_.store_.set_rows(rows);
    }
    void set_rows(std::uint64_t rows) noexcept {
        rows_.store_.set_rows(rows);
        rows_.core_.shrink(rows);
    }
    void name_rows(std::uint64_t first, key_span keys);
    // Builds the index of the rows by their keys, which must be distinct: otherwise calls
    // refuse({...}).
    template <class Refuse> void index_keys(Refuse const& refuse);
    // Records that the last step contained these rows.
    void touch(std::span<std::int32_t const> ids);
    // Ages have 32 bits. Ages above 2^31 become 2^31 when the steps from `since` to `until`, at
    // most latest_step, reach a multiple of 2^30, so that no age wraps. The clock is at one of the
    // two; a checkpoint needs nothing else.
    void settle_ages(std::int64_t since, std::int64_t until);
    // Calls f(), whose errors contain row numbers, and replaces them by keys.
    template <class F> void naming_keys(key_span keys, std::span<std::int32_t const> ids, F const& f) const {
        detail::rethrow_as<value_error>(f, [&](value_error const&) { refuse_duplicate(keys, ids); });
    }
    [[gnu::cold]] void refuse_duplicate(key_span keys, std::span<std::int32_t const> ids) const;

    void require_last_touches(char const* what) const {
        rows_.require_trained(what);
        if (!options_.last_touches)
            detail::fail<sequence_error>({what, ": this table does not keep when its rows were touched: make it with "
                                                "keyed_options.last_touches = true"});
    }
    std::uint32_t age_of(row_type const& row) const {
        return static_cast<std::uint32_t>(clock().step) - *row.last_touch;
    }
    keyed_row<Updater> view_of(row_type const& row) const;
    // Calls f(i, first, size) for each slot i of a row, including the master copy.
    template <class F> void each_slot(row_type const& row, F const& f) const;

    void take_in(changes_type const& changes);
    void require_sizes(changes_type const& changes) const;
    std::vector<std::int32_t> touched_since(std::int64_t since) const;

    bool is_held(std::uint64_t key) const { return held_.size() != 0 && held_.find(key) != detail::key_index::none; }
    template <class Chosen> std::uint64_t evict_if(Chosen const& chosen);
    template <class Score> std::uint64_t evict_lowest(std::uint64_t rows, Score const& score);
    // Removes rows at a step, and logs the evictions. Call evictions_.reserve first.
    std::uint64_t evict_rows(std::span<std::int32_t const> gone, std::int64_t step);
    // Removes rows, in ascending order of their numbers. The last rows move into the gaps, so that
    // numbers stay contiguous. They catch up first, since the sweep may have passed their new
    // number.
    std::uint64_t drop(std::span<std::int32_t const> gone);
    void copy_row(row_type const& from, row_type const& to) const;

    keyed_options options_;
    rows_type rows_; // by their numbers, contiguous from 0
    detail::key_index index_;
    detail::admission admission_;
    detail::key_index held_; // the number of holds per key
    keyed_counts counts_;
    detail::eviction_log evictions_;
    // The scratch memory of updates.
    std::vector<std::int32_t> ids_;
    std::vector<std::uint64_t> new_, added_;
};

template <class Updater, std::integral Width> keyed_table(Updater const&, Width) -> keyed_table<Updater, touch_only>;
template <class Updater, std::integral Width, class CatchUp>
keyed_table(Updater const&, Width, CatchUp) -> keyed_table<Updater, CatchUp>;
template <class Updater, std::integral Width, class CatchUp>
keyed_table(Updater const&, Width, CatchUp, keyed_options) -> keyed_table<Updater, CatchUp>;

} // namespace GRADSTEP_ISA
} // namespace gradstep
