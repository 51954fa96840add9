#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/keyed/detail/admission.hpp>
#include <gradstep/keyed/detail/eviction_log.hpp>
#include <gradstep/keyed/detail/key_index.hpp>
#include <gradstep/keyed/options.hpp>
#include <gradstep/rows/row_changes.hpp>
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

namespace gradstep::detail::inline GRADSTEP_ISA {
// What a keyed_table consists of: a table of rows by number, and the index from keys to numbers.
// keyed_table, `striped` and checkpoints use it. Row numbers are contiguous from 0, and every row
// has its key in the index.
//
// keyed/detail/changes.hpp defines further members.
template <class Updater, class CatchUp> struct keyed_core {
    using rows_type = table<Updater, CatchUp>;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    using backend = typename Updater::backend_type;
    using row_core_type = row_core<Updater, CatchUp>;
    using shape_type = typename row_core_type::shape_type;
    using engine = typename row_core_type::engine_type;
    using changes_type = row_changes<Updater>;
    using row_type = row_addresses<Updater>;
    using columns_type = typename shape_type::columns_type;
    using key_span = std::span<std::uint64_t const>;
    static constexpr std::uint64_t most_rows = std::numeric_limits<std::int32_t>::max();
    static constexpr std::int32_t no_row = -1;
    // A key that is excluded from the batch, before it becomes no_row.
    static constexpr std::int32_t left_out_row = -2;
    static constexpr std::int64_t latest_step = std::int64_t{1} << 62; // of changes, to which ages are added
    static_assert(static_cast<std::uint32_t>(no_row) == key_index::none);
    static_assert(rows_type::on_host, "gradstep: keyed_table: the index is in host memory, and the backend is on a "
                                      "device; expected a backend of the host");

    keyed_options options;
    rows_type stored; // by their numbers
    key_index index;
    admission admitter;
    key_index held; // the number of holds per key
    keyed_counts counts;
    eviction_log evictions;
    // The scratch memory of updates.
    std::vector<std::int32_t> scratch_ids;
    std::vector<std::uint64_t> new_keys, added;

    keyed_core(Updater const& of, auto width, CatchUp catch_up, keyed_options const& chosen)
        : options(checked(chosen)), stored(rows_of(of, width, catch_up, options)),
          admitter(options.admit_after, options.admit_probability, options.admit_seed, options.sketch_bytes,
                   options.sketch_half_life) {}

    std::uint64_t num_rows() const { return stored.num_rows(); }
    std::size_t width() const { return stored.width(); }
    gradstep::clock clock() const { return stored.clock(); }
    keyed_counts all_counts() const {
        keyed_counts out = counts;
        out.left_out += stored.gradients_left_out();
        return out;
    }
    // The keys that have rows, in the order of the rows.
    std::vector<std::uint64_t> keys() const {
        std::vector<std::uint64_t> out;
        with_memory(num_rows(), [&] { out.reserve(num_rows()); });
        shape().each_segment(stored.binding(), [&](row_memory<Updater> const& of) {
            out.insert(out.end(), of.keys.begin(), of.keys.end());
        });
        return out;
    }

    static keyed_options checked(keyed_options const& chosen) {
        check(chosen);
        if (chosen.initial.is_container())
            fail<value_error>({"keyed_options.initial"}, {"holds values"},
                              {"a number, uniform or normal, since keys have no order"});
        if (chosen.touch_counts && !chosen.last_touches)
            fail<value_error>({"keyed_options.touch_counts"},
                              {"true is given without last_touches, by which a step counts once"},
                              {"last_touches = true"});
        if (static_cast<std::uint64_t>(chosen.max_rows) > most_rows)
            fail<value_error>({"keyed_options.max_rows"}, {chosen.max_rows, " is out of range"},
                              {"at most ", most_rows});
        return chosen;
    }
    static rows_type rows_of(Updater const& of, auto width, CatchUp catch_up, keyed_options const& from) {
        table_options chosen;
        chosen.initial = from.initial;
        chosen.duplicates = from.duplicates;
        chosen.row_steps = from.row_steps;
        chosen.ignore_id = no_row;
        chosen.max_history = from.max_history;
        chosen.id = from.id;
        chosen.max_norm = from.max_norm;
        rows_type rows(of, 0, width, catch_up, std::move(chosen));
        rows.core().shape.kept = {.touches = from.row_steps,
                                  .keys = true,
                                  .last_touches = from.last_touches,
                                  .touch_counts = from.touch_counts};
        rows.core().with_memory(0, [&] { rows.store() = row_store<Updater, engine, shape_type>(rows.core().shape); });
        return rows;
    }

    backend const& on() const { return stored.optimizer().backend(); }
    auto const& shape() const { return stored.shape(); }
    rows_at<Updater> row_pointers() const { return shape().at(stored.binding()); }

    template <class Keys> static key_span keys_of(Keys& keys) {
        using given = std::remove_const_t<element_type<Keys>>;
        static_assert(std::is_integral_v<given> && sizeof(given) == 8,
                      "gradstep: keys: they are of another type; expected uint64 or int64");
        auto const ids = shape_type::ids_of(keys);
        require_countable(ids.size(), "keys");
        return {reinterpret_cast<std::uint64_t const*>(ids.data()), ids.size()};
    }
    // The rows of keys; no_row if they have none.
    void find(key_span keys, std::span<std::int32_t> to) const {
        auto* const slots = reinterpret_cast<std::uint32_t*>(to.data());
        constexpr std::size_t bytes = 64; // a cache line of the index per key
        std::size_t const parts = std::max<std::size_t>(1, on().parts_for(keys.size() * bytes));
        on().for_each_part(parts, [&](std::size_t p) {
            std::size_t const first = p * keys.size() / parts, last = (p + 1) * keys.size() / parts;
            index.find(keys.subspan(first, last - first), slots + first);
        });
    }
    std::vector<std::int32_t> found(key_span keys) const {
        auto ids = with_memory(keys.size(), [&] { return std::vector<std::int32_t>(keys.size()); });
        find(keys, ids);
        return ids;
    }
    // Calls f(), with a memory_error for a failed allocation.
    template <class F> decltype(auto) with_memory(std::uint64_t rows, F const& f) const {
        return stored.core().with_memory(rows, f);
    }

    template <class T, class Reader, class Out> void read_by(Reader const& reader, key_span keys, Out& out) const {
        auto const to = shape().template room<T>(stored.binding(), keys.size(), out);
        std::vector<std::int32_t> const ids = found(keys);
        constexpr bool as_stored = std::is_same_v<T, storage>;
        std::vector<storage> initial;
        if constexpr (!as_stored) with_memory(1, [&] { initial.resize(width()); });
        engine::read(
            on(), reader, std::span<std::int32_t const>(ids), to.data(), stored.core().row_bytes(),
            [](std::int32_t id) { return id != no_row; },
            [&](std::uint64_t k, T* row) {
                if constexpr (as_stored) fill_rows(options.initial, row, keys[k], 1, width());
            });
        // The values as they would have been stored; by one thread, which has memory for them.
        if constexpr (!as_stored)
            for (std::size_t k = 0; k < keys.size(); ++k) {
                if (ids[k] != no_row) continue;
                fill_rows(options.initial, initial.data(), keys[k], 1, width());
                for (std::size_t i = 0; i < width(); ++i) to[k * width() + i] = T(widen(initial[i]));
            }
    }

    // One step. New keys come first; if something throws before the step has begun, they are
    // removed.
    void apply(key_span keys, std::uint32_t const* sources, std::span<storage const> gradients,
               step_options const& how);
    void finish_step(std::span<std::int32_t const> ids) {
        admitter.commit();
        admitter.age(clock().step);
        touch(ids);
    }
    // Marks the ids of keys with non-finite gradients as left_out_row, so that `admit` ignores
    // them, and returns their number. Throws nonfinite_error if the options require it.
    std::uint64_t leave_out_nonfinite(key_span keys, std::span<std::int32_t> ids, std::uint32_t const* sources,
                                      std::span<storage const> gradients) const;
    // Adds rows for the new, admitted keys among `keys`; `ids` contains the existing rows. The new
    // keys are in `added`, so that the caller can undo it.
    void admit(key_span keys, std::span<std::int32_t> ids);
    std::uint64_t most() const {
        return options.max_rows == 0 ? most_rows : static_cast<std::uint64_t>(options.max_rows);
    }
    bool is_new(std::uint64_t key, std::int32_t id) const { return id == no_row && key != options.ignore_key; }
    std::size_t count_new(key_span keys, std::span<std::int32_t const> ids) const {
        std::size_t count = 0;
        for (std::size_t k = 0; k < keys.size(); ++k) count += is_new(keys[k], ids[k]);
        return count;
    }
    // Undoes `admit`.
    void forget_new(std::uint64_t rows_before, keyed_counts const& counts_before) noexcept;
    // Allocates memory for rows up to `rows`, and adds them.
    void grow(std::uint64_t rows) {
        with_memory(rows, [&] { stored.store().reserve(rows); });
        stored.core().grow(rows);
        stored.store().set_rows(rows);
    }
    void set_rows(std::uint64_t rows) noexcept {
        stored.store().set_rows(rows);
        stored.core().shrink(rows);
    }
    void name_rows(std::uint64_t first, key_span keys);
    // Builds the index of the rows by their keys, which must be distinct: otherwise calls
    // refuse({given...}, {expected...}).
    template <class Refuse> void index_keys(Refuse const& refuse);
    // Records that the last step contained these rows.
    void touch(std::span<std::int32_t const> ids) {
        if (!options.last_touches) return;
        auto const rows = row_pointers();
        auto const now = static_cast<std::uint32_t>(clock().step);
        for (std::size_t k = 0; k < ids.size(); ++k) {
            constexpr std::size_t ahead = 64; // more than for rows: these are a line or two each
            if (k + ahead < ids.size() && ids[k + ahead] != no_row) {
                auto const later = rows.at(static_cast<std::uint64_t>(ids[k + ahead]));
                rows.prefetch_lines(later.last_touch, 1);
                if (later.touch_count != nullptr) rows.prefetch_lines(later.touch_count, 1);
            }
            if (ids[k] == no_row) continue;
            auto const row = rows.at(static_cast<std::uint64_t>(ids[k]));
            if (row.touch_count != nullptr && *row.last_touch != now)
                *row.touch_count += *row.touch_count != UINT32_MAX;
            *row.last_touch = now;
        }
        settle_ages(clock().step - 1, clock().step);
    }
    // Ages have 32 bits. Ages above 2^31 become 2^31 when the steps from `since` to `until`, at
    // most latest_step, reach a multiple of 2^30, so that no age wraps. The clock is at one of the
    // two; a checkpoint needs nothing else.
    void settle_ages(std::int64_t since, std::int64_t until) {
        constexpr std::int64_t every = std::int64_t{1} << 30, oldest = std::int64_t{1} << 31;
        if (since / every == until / every || !options.last_touches) return;
        auto const rows = row_pointers();
        std::int64_t const still = until - clock().step;
        for (std::uint64_t id = 0; id < num_rows(); ++id) {
            auto const row = rows.at(id);
            if (age_of(row) + still > oldest) *row.last_touch = static_cast<std::uint32_t>(until - oldest);
        }
    }
    // Calls f(), whose errors contain row numbers, and replaces them by keys.
    template <class F> void naming_keys(key_span keys, std::span<std::int32_t const> ids, F const& f) const {
        rethrow_as<value_error>(f, [&](value_error const&) { refuse_duplicate(keys, ids); });
    }
    [[gnu::cold]] void refuse_duplicate(key_span keys, std::span<std::int32_t const> ids) const;

    void require_last_touches(char const* what) const {
        stored.require_trained(what);
        if (!options.last_touches)
            fail<sequence_error>({what}, {"this table does not keep when its rows were touched"},
                                 {"a table made with keyed_options.last_touches = true"});
    }
    std::uint32_t age_of(row_type const& row) const {
        return static_cast<std::uint32_t>(clock().step) - *row.last_touch;
    }
    keyed_row<Updater> view_of(row_type const& row) const {
        keyed_row<Updater> out;
        out.key = *row.key;
        out.values = {row.weight, width()};
        auto const at = pointers_of(row);
        for (std::size_t i = 0; i < Updater::slots; ++i)
            out.state[i] = {reinterpret_cast<state_type*>(at[1 + i]), Updater::is_row_slot(i) ? 1 : width()};
        out.age = row.last_touch == nullptr ? 0 : age_of(row);
        out.touch_count = row.touch_count == nullptr ? 0 : *row.touch_count;
        return out;
    }

    void take_in(changes_type const& changes);
    // The columns of this table, where the changes have them.
    columns_type columns_in(changes_type const& changes) const;
    void require_sizes(changes_type const& changes) const;
    std::vector<std::int32_t> touched_since(std::int64_t since) const;

    bool is_held(std::uint64_t key) const { return held.size() != 0 && held.find(key) != key_index::none; }
    template <class Chosen> std::uint64_t evict_if(Chosen const& chosen);
    template <class Score> std::uint64_t evict_lowest(std::uint64_t rows, Score const& score);
    // Evicts rows at this step: rows that stay catch up if the history could lose their steps.
    std::uint64_t evict_now(std::span<std::int32_t const> gone);
    // Removes rows at a step, and logs the evictions. Call evictions.reserve first.
    std::uint64_t evict_rows(std::span<std::int32_t const> gone, std::int64_t step);
    // Removes rows, in ascending order of their numbers. The last rows move into the gaps, so that
    // numbers stay contiguous. They catch up first, since the sweep may have passed their new
    // number.
    std::uint64_t drop(std::span<std::int32_t const> gone);

    // See keyed_table.
    void reset(key_span names) {
        std::vector<std::int32_t> ids = found(names);
        std::erase(ids, no_row);
        stored.core().reset(stored.binding(), std::span<std::int32_t const>(ids));
        if (!options.last_touches) return;
        auto const rows = row_pointers();
        for (std::int32_t const id : ids)
            *rows.at(static_cast<std::uint64_t>(id)).last_touch = static_cast<std::uint32_t>(clock().step);
    }
    std::uint64_t evict_older_than(std::int64_t step);
    template <class Chosen> std::uint64_t evict(Chosen const& chosen);
    std::uint64_t evict_to(std::uint64_t rows);
    template <class Score> std::uint64_t evict_to(std::uint64_t rows, Score const& score);
    void hold(key_span names);
    void release(key_span names);
    changes_type changed_since(std::int64_t since, row_content content);
    void apply(changes_type const& changes);
};

// A step of a keyed_table: new keys get rows first, and lose them again if the step fails.

template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::leave_out_nonfinite(key_span keys, std::span<std::int32_t> ids,
                                                                std::uint32_t const* sources,
                                                                std::span<storage const> gradients) const {
    if (options.on_nonfinite == nonfinite::propagate || find_nonfinite(on(), gradients) == gradients.size()) return 0;
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < keys.size(); ++k) {
        if (keys[k] == options.ignore_key) continue;
        std::size_t const row = sources == nullptr ? k : sources[k];
        std::size_t const column = find_nonfinite<typename backend::template pack<typename traits::compute>>(
            gradients.subspan(row * width(), width()));
        if (column == width()) continue;
        if (options.on_nonfinite == nonfinite::raise)
            fail<nonfinite_error>({"keys[", k, "]"}, {"the gradient of key ", keys[k], " is not finite in column ",
                                                      column, ", and on_nonfinite is raise: the step is not taken"});
        ids[k] = left_out_row;
        ++count;
    }
    return count;
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::admit(key_span keys, std::span<std::int32_t> ids) {
    std::uint64_t const before = num_rows(), most = this->most();
    added.clear();
    if (count_new(keys, ids) == 0) return;
    with_memory(keys.size(), [&] {
        new_keys.clear();
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (is_new(keys[k], ids[k])) new_keys.push_back(keys[k]);
        admitter.reserve(new_keys.size());
        std::sort(new_keys.begin(), new_keys.end());
        new_keys.erase(std::unique(new_keys.begin(), new_keys.end()), new_keys.end());
        added.reserve(new_keys.size());
        index.reserve(new_keys);
    });
    std::uint64_t rows = before;
    auto const step = static_cast<std::uint64_t>(clock().step + 1);
    for (std::size_t k = 0; k < keys.size(); ++k) {
        if (!is_new(keys[k], ids[k])) continue;
        std::uint32_t slot = index.find(keys[k]); // it may have been added earlier in this batch
        if (slot == key_index::none) {
            if (!admitter.admits(keys[k], step)) {
                ++counts.turned_away;
                continue;
            }
            if (rows >= most) {
                ++counts.no_room;
                continue;
            }
            slot = static_cast<std::uint32_t>(rows++);
            index.insert(keys[k], slot);
            added.push_back(keys[k]);
            ++counts.admitted;
        }
        ids[k] = static_cast<std::int32_t>(slot);
    }
    if (rows == before) return;
    grow(rows);
    name_rows(before, added);
    stored.core().begin_rows(stored.binding(), &options.initial, before, rows, false);
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::forget_new(std::uint64_t rows_before, keyed_counts const& counts_before) noexcept {
    for (std::uint64_t const key : added) index.erase(key);
    set_rows(rows_before);
    admitter.rollback();
    counts = counts_before;
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::name_rows(std::uint64_t first, key_span keys) {
    auto const rows = row_pointers();
    for (std::size_t k = 0; k < keys.size(); ++k) {
        auto const row = rows.at(first + k);
        *row.key = keys[k];
        if (row.last_touch != nullptr) *row.last_touch = static_cast<std::uint32_t>(clock().step);
        if (row.touch_count != nullptr) *row.touch_count = 0;
    }
}

template <class Updater, class CatchUp>
template <class Refuse>
void keyed_core<Updater, CatchUp>::index_keys(Refuse const& refuse) {
    std::vector<std::uint64_t> const all = keys();
    index.reserve(all);
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (std::uint32_t const at = index.find(all[k]); at != key_index::none)
            refuse({"keys[", k, "] = ", all[k], " appears before, at ", at}, {"distinct keys"});
        index.insert(all[k], static_cast<std::uint32_t>(k));
    }
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::refuse_duplicate(key_span keys, std::span<std::int32_t const> ids) const {
    if (options.duplicates != duplicates::unique) return;
    std::vector<std::size_t> order; // positions by row; equal rows in order
    with_memory(keys.size(), [&] {
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (ids[k] != no_row) order.push_back(k);
    });
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return ids[a] != ids[b] ? ids[a] < ids[b] : a < b; });
    std::size_t first = keys.size(), before = 0; // the first duplicate
    for (std::size_t i = 1; i < order.size(); ++i)
        if (ids[order[i]] == ids[order[i - 1]] && order[i] < first) first = order[i], before = order[i - 1];
    if (first != keys.size())
        fail<value_error>({"keys[", first, "]"}, {keys[first], " appears before, at position ", before},
                          {"distinct keys with duplicates::unique; duplicates::sum adds their gradients"});
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::apply(key_span keys, std::uint32_t const* sources,
                                         std::span<storage const> gradients, step_options const& how) {
    std::int64_t const last_step = clock().step;
    with_memory(keys.size(), [&] { scratch_ids.resize(keys.size()); });
    find(keys, scratch_ids);
    std::uint64_t const left_out = leave_out_nonfinite(keys, scratch_ids, sources, gradients);
    rollback_guard stepping([&, before = num_rows(), counts_before = counts] {
        if (clock().step == last_step) forget_new(before, counts_before);
        else finish_step(scratch_ids); // the application's thread pool threw: parts of the step have run
    });
    admit(keys, scratch_ids);
    if (left_out != 0) std::replace(scratch_ids.begin(), scratch_ids.end(), left_out_row, no_row);
    counts.left_out += left_out;
    naming_keys(keys, scratch_ids, [&] {
        with_memory(keys.size(), [&] {
            stored.core().apply(stored.binding(), std::span<std::int32_t const>(scratch_ids), sources, gradients, how);
        });
    });
    stepping.dismiss();
    finish_step(scratch_ids);
}

// How a keyed_table evicts rows.

template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::evict_older_than(std::int64_t step) {
    require_last_touches("evict_older_than");
    std::int64_t const now = clock().step;
    return evict_if([&](row_type const& row) { return now - age_of(row) < step; });
}

template <class Updater, class CatchUp>
template <class Chosen>
std::uint64_t keyed_core<Updater, CatchUp>::evict(Chosen const& chosen) {
    stored.require_trained("evict");
    stored.flush();
    return evict_if([&](row_type const& row) { return !is_held(*row.key) && chosen(view_of(row)); });
}

template <class Updater, class CatchUp> std::uint64_t keyed_core<Updater, CatchUp>::evict_to(std::uint64_t rows) {
    require_last_touches("evict_to");
    return evict_lowest(rows, [&](row_type const& row) { return -static_cast<double>(age_of(row)); });
}

template <class Updater, class CatchUp>
template <class Score>
std::uint64_t keyed_core<Updater, CatchUp>::evict_to(std::uint64_t rows, Score const& score) {
    stored.require_trained("evict_to");
    stored.flush();
    return evict_lowest(rows, [&](row_type const& row) { return static_cast<double>(score(view_of(row))); });
}

template <class Updater, class CatchUp>
template <class Chosen>
std::uint64_t keyed_core<Updater, CatchUp>::evict_if(Chosen const& chosen) {
    std::vector<std::int32_t> gone;
    with_memory(num_rows(), [&] {
        auto const rows = row_pointers();
        for (std::uint64_t id = 0; id < num_rows(); ++id) {
            auto const row = rows.at(id);
            if (chosen(row) && !is_held(*row.key)) gone.push_back(static_cast<std::int32_t>(id));
        }
        evictions.reserve(gone.size());
    });
    return evict_now(gone);
}

template <class Updater, class CatchUp>
template <class Score>
std::uint64_t keyed_core<Updater, CatchUp>::evict_lowest(std::uint64_t rows, Score const& score) {
    if (rows >= num_rows()) return 0;
    struct scored {
        double score;
        std::uint64_t key;
        std::int32_t id;
    };
    std::vector<std::int32_t> gone;
    with_memory(num_rows(), [&] {
        std::vector<scored> all;
        auto const at = row_pointers();
        for (std::uint64_t id = 0; id < num_rows(); ++id) {
            auto const row = at.at(id);
            if (is_held(*row.key)) continue;
            all.push_back({score(row), *row.key, static_cast<std::int32_t>(id)});
            if (std::isnan(all.back().score))
                fail<value_error>({"evict_to"}, {"the score of key ", *row.key, " is NaN"}, {"a number"});
        }
        std::size_t const count = std::min<std::size_t>(all.size(), num_rows() - rows);
        auto const last = all.begin() + static_cast<std::ptrdiff_t>(count);
        std::nth_element(all.begin(), last, all.end(), [](scored const& a, scored const& b) {
            return a.score != b.score ? a.score < b.score : a.key > b.key;
        });
        for (auto one = all.begin(); one != last; ++one) gone.push_back(one->id);
        std::sort(gone.begin(), gone.end());
        evictions.reserve(gone.size());
    });
    return evict_now(gone);
}

template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::evict_now(std::span<std::int32_t const> gone) {
    if (!gone.empty()) stored.core().begin_lap(stored.binding());
    return evict_rows(gone, clock().step);
}

template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::evict_rows(std::span<std::int32_t const> gone, std::int64_t step) {
    if (options.last_touches) {
        evictions.forget(gone.size(), std::max<std::size_t>(std::size_t{1} << 16, num_rows()));
        auto const rows = row_pointers();
        for (std::int32_t const id : gone)
            evictions.entries.push_back({step, *rows.at(static_cast<std::uint64_t>(id)).key});
    }
    return drop(gone);
}

template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::drop(std::span<std::int32_t const> gone) {
    if (gone.empty()) return 0;
    using pack = typename backend::template pack<typename traits::compute>;
    std::uint64_t rows = num_rows();
    auto const catch_up = stored.reader();
    auto const columns = shape().columns();
    on().for_each_part(1, [&](std::size_t) {
        for (std::size_t k = gone.size(); k-- > 0;) {
            auto const id = static_cast<std::uint64_t>(gone[k]);
            auto const gap = catch_up.rows.at(id), last = catch_up.rows.at(--rows);
            index.erase(*gap.key);
            if (id == rows) continue;
            catch_up.template catch_up<pack>(rows);
            index.move(*last.key, static_cast<std::uint32_t>(id));
            copy_row(columns, pointers_of(last).data(), pointers_of(gap).data());
        }
    });
    set_rows(rows);
    counts.evicted += gone.size();
    return gone.size();
}

template <class Updater, class CatchUp> void keyed_core<Updater, CatchUp>::hold(key_span names) {
    with_memory(names.size(), [&] { held.reserve(names); });
    for (std::uint64_t const key : names) {
        std::uint32_t const times = held.find(key);
        if (times == key_index::none) held.insert(key, 1);
        else held.move(key, times + 1);
    }
}

template <class Updater, class CatchUp> void keyed_core<Updater, CatchUp>::release(key_span names) {
    for (std::size_t k = 0; k < names.size(); ++k) {
        std::uint32_t const times = held.find(names[k]);
        if (times == key_index::none || times == 0) {
            for (std::uint64_t const key : names.first(k)) held.move(key, held.find(key) + 1);
            fail<value_error>({"release: keys[", k, "]"}, {names[k], " is not held"}, {"a key that is held"});
        }
        held.move(names[k], times - 1);
    }
    for (std::uint64_t const key : names)
        if (held.find(key) == 0) held.erase(key);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
