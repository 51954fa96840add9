#pragma once
#include <gradstep/keyed/detail/admission.hpp>
#include <gradstep/keyed/detail/eviction_log.hpp>
#include <gradstep/keyed/detail/key_index.hpp>
#include <gradstep/keyed/options.hpp>
#include <gradstep/rows/detail/row_grouping.hpp>
#include <gradstep/rows/detail/table_core.hpp>
#include <gradstep/rows/row_changes.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// One column of a table's rows in host memory, without gaps.
template <class T> class row_numbers_of {
public:
    row_numbers_of(row_place const& rows, std::size_t column)
        : first_(reinterpret_cast<T*>(rows.segments[0][column].data)),
          pages_(rows.pages == nullptr ? nullptr : rows.pages + column), columns_(rows.segments[0].size()),
          shift_(rows.shift) {}
    // Whether the table has the column, and any row.
    explicit operator bool() const { return first_ != nullptr; }
    T& operator[](std::uint64_t id) const {
        if (pages_ == nullptr) [[likely]]
            return first_[id];
        return reinterpret_cast<T*>(pages_[(id >> shift_) * columns_])[id & ((std::uint64_t{1} << shift_) - 1)];
    }

private:
    T* first_;
    std::byte* const* pages_;
    std::size_t columns_;
    std::uint32_t shift_;
};

// What a keyed_table consists of: a table of rows by number, and the index from keys to numbers.
// keyed_table, `striped` and checkpoints use it. Row numbers are contiguous from 0, and every row
// has its key in the index.
struct keyed_core {
    using key_span = std::span<std::uint64_t const>;
    static constexpr std::uint64_t most_rows = std::numeric_limits<std::int32_t>::max();
    static constexpr std::int32_t no_row = -1;
    // A key that is excluded from the batch, before it becomes no_row.
    static constexpr std::int32_t left_out_row = -2;
    static constexpr std::int64_t latest_step = std::int64_t{1} << 62; // of changes, to which ages are added
    static_assert(static_cast<std::uint32_t>(no_row) == key_index::none);

    keyed_options options;
    table_core stored; // by their numbers
    key_index index;
    admission admitter;
    key_index held; // the number of holds per key
    keyed_counts counts;
    eviction_log evictions;
    // The scratch memory of updates.
    std::vector<std::int32_t> scratch_ids;
    std::vector<std::uint64_t> new_keys, added;
    std::vector<std::byte*> row_pointers; // of two rows

    // Throws value_error for numbers out of range.
    keyed_core(std::unique_ptr<table_kernels> kernels, std::size_t width, keyed_options const& chosen);
    // A table without rows, with the same policies and options.
    keyed_core fresh() const { return keyed_core(stored.kernels().copy(false), width(), options); }

    std::uint64_t num_rows() const { return stored.num_rows(); }
    std::size_t width() const { return stored.width(); }
    gradstep::clock clock() const { return stored.clock(); }
    keyed_counts all_counts() const {
        keyed_counts out = counts;
        out.left_out += stored.rows().left_out();
        return out;
    }
    // The keys that have rows, in the order of the rows.
    std::vector<std::uint64_t> keys() const;

    // The columns of the rows, and one of them.
    std::size_t key_column() const { return 1 + stored.rows().facts().slots + 2; }
    row_numbers_of<std::uint64_t> row_keys() const { return {stored.place(), key_column()}; }
    row_numbers_of<std::uint32_t> last_touches() const { return {stored.place(), key_column() + 1}; }
    row_numbers_of<std::uint32_t> touch_counts() const { return {stored.place(), key_column() + 2}; }

    // The rows of keys; no_row if they have none.
    void find(key_span keys, std::span<std::int32_t> to) const;
    std::vector<std::int32_t> found(key_span keys) const;
    // Calls f(), with a memory_error for a failed allocation.
    template <class F> decltype(auto) with_memory(std::uint64_t rows, F const& f) const {
        return stored.rows().with_memory(rows, f);
    }
    // Copies the rows of keys, or their averages; initial values of keys without a row.
    void read(key_span keys, void* out, bool averages) const;

    // The functions of keyed_table; see there. `offsets`: of the bags; null if each key has a
    // gradient.
    void update(key_span keys, given_values const& gradients, std::size_t count, char const* what,
                step_options const& how, given_ids const* offsets = nullptr, bag_options const& bags = {});
    void read_bags(key_span keys, given_ids offsets, extent const& out, bag_options const& how) const;
    // The key for padding, as ids have it.
    std::optional<std::int64_t> padding() const {
        if (!options.ignore_key) return {};
        return static_cast<std::int64_t>(*options.ignore_key);
    }
    bool contains(std::uint64_t key) const { return index.find(key) != key_index::none; }
    void reserve_rows(std::uint64_t rows);
    template <class Chosen> std::uint64_t evict_rows_by(Chosen const& chosen) {
        stored.require_trained("evict");
        stored.flush();
        return evict_if(chosen);
    }
    template <class Score> std::uint64_t evict_to_by(std::uint64_t rows, Score const& score) {
        stored.require_trained("evict_to");
        stored.flush();
        return evict_lowest(rows, score);
    }
    std::uint32_t age_at(std::uint64_t id) const { return options.last_touches ? age_of(last_touches()[id]) : 0; }
    std::uint32_t touch_count_at(std::uint64_t id) const { return options.touch_counts ? touch_counts()[id] : 0; }

    // One step. New keys come first; if something throws before the step has begun, they are
    // removed.
    void apply(key_span keys, row_sources const& sources, given_values const& gradients, step_options const& how);
    void finish_step(std::span<std::int32_t const> ids) {
        admitter.commit();
        admitter.age(stored.step());
        touch(ids);
    }
    // Marks the ids of keys with non-finite gradients as left_out_row, so that `admit` ignores
    // them, and returns their number. Throws nonfinite_error if the options require it.
    std::uint64_t leave_out_nonfinite(key_span keys, std::span<std::int32_t> ids, row_sources const& sources,
                                      given_values const& gradients) const;
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
    void reserve(std::uint64_t rows) { stored.reserve(rows); }
    void set_rows(std::uint64_t rows) noexcept {
        stored.set_rows(rows);
        stored.rows().shrink(rows);
    }
    void name_rows(std::uint64_t first, key_span keys);
    // Builds the index of the rows by their keys, which must be distinct: otherwise calls
    // refuse({given...}, {expected...}).
    template <class Refuse> void index_keys(Refuse const& refuse) {
        std::vector<std::uint64_t> const all = keys();
        index.reserve(all);
        for (std::size_t k = 0; k < all.size(); ++k) {
            if (std::uint32_t const at = index.find(all[k]); at != key_index::none)
                refuse({"keys[", k, "] = ", all[k], " appears before, at ", at}, {"distinct keys"});
            index.insert(all[k], static_cast<std::uint32_t>(k));
        }
    }
    // Records that the last step contained these rows.
    void touch(std::span<std::int32_t const> ids);
    // Ages have 32 bits. Ages above 2^31 become 2^31 when the steps from `since` to `until`, at
    // most latest_step, reach a multiple of 2^30, so that no age wraps. The clock is at one of the
    // two; a checkpoint needs nothing else.
    void settle_ages(std::int64_t since, std::int64_t until);
    // Calls f(), whose errors contain row numbers, and replaces them by keys.
    template <class F> void naming_keys(key_span keys, std::span<std::int32_t const> ids, F const& f) const {
        rethrow_as<value_error>(f, [&](value_error const&) { refuse_duplicate(keys, ids); });
    }
    void refuse_duplicate(key_span keys, std::span<std::int32_t const> ids) const;

    void require_last_touches(char const* what) const;
    // The number of steps since a touch.
    std::uint32_t age_of(std::uint32_t last_touch) const {
        return static_cast<std::uint32_t>(clock().step) - last_touch;
    }

    void reset(key_span names);
    void seek(gradstep::clock const& at);

    // Evictions. chosen(id) and score(id) are called for rows that are not held.
    bool is_held(std::uint64_t key) const { return held.size() != 0 && held.find(key) != key_index::none; }
    std::uint64_t evict_older_than(std::int64_t step);
    std::uint64_t evict_to(std::uint64_t rows);
    template <class Chosen> std::uint64_t evict_if(Chosen const& chosen) {
        std::vector<std::int32_t> gone;
        with_memory(num_rows(), [&] {
            auto const keys = row_keys();
            for (std::uint64_t id = 0; id < num_rows(); ++id)
                if (!is_held(keys[id]) && chosen(id)) gone.push_back(static_cast<std::int32_t>(id));
            evictions.reserve(gone.size());
        });
        return evict_now(gone);
    }
    template <class Score> std::uint64_t evict_lowest(std::uint64_t rows, Score const& score) {
        if (rows >= num_rows()) return 0;
        std::vector<std::int32_t> gone;
        with_memory(num_rows(), [&] {
            std::vector<scored> all;
            auto const keys = row_keys();
            for (std::uint64_t id = 0; id < num_rows(); ++id)
                if (!is_held(keys[id])) all.push_back({score(id), keys[id], static_cast<std::int32_t>(id)});
            gone = lowest(all, num_rows() - rows);
            evictions.reserve(gone.size());
        });
        return evict_now(gone);
    }
    void hold(key_span names);
    void release(key_span names);

    // The rows that were updated since a step, with the parts of the changes that do not depend on
    // types; then copies them to the columns of the message.
    std::vector<std::int32_t> begin_changes(row_changes_base& out, std::int64_t since, row_content content);
    void copy_changes(std::span<std::int32_t const> ids, row_content content, row_columns message);
    // The columns of the rows, where the changes have them: `typed` are the values and the state.
    std::vector<row_column> columns_of(row_changes_base const& changes, row_columns typed) const;
    // Throws for changes that do not fit. Then applies them.
    void check_changes(row_changes_base const& changes) const;
    void apply(row_changes_base const& changes, row_columns message);

private:
    struct scored {
        double score;
        std::uint64_t key;
        std::int32_t id;
    };
    // The rows with the lowest scores, in ascending order. Throws value_error for a NaN.
    static std::vector<std::int32_t> lowest(std::vector<scored>& all, std::uint64_t count);
    // Evicts rows at this step: rows that stay catch up if the history could lose their steps.
    std::uint64_t evict_now(std::span<std::int32_t const> gone);
    // Removes rows at a step, and logs the evictions. Call evictions.reserve first.
    std::uint64_t evict_rows(std::span<std::int32_t const> gone, std::int64_t step);
    // Removes rows, in ascending order of their numbers. The last rows move into the gaps, so that
    // numbers stay contiguous. They have to catch up first, since the sweep may have passed their
    // new number. The application's pool can throw while they do.
    void catch_up_last(std::size_t count) {
        std::uint64_t const rows = num_rows();
        stored.rows().catch_up(stored.place(), rows - count, rows, {clock().step});
    }
    std::uint64_t drop(std::span<std::int32_t const> gone);
    std::vector<std::int32_t> touched_since(std::int64_t since) const;
    void take_in(row_changes_base const& changes, row_columns message);
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

#include <gradstep/keyed/core.ipp>
