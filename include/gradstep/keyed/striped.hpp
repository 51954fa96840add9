#pragma once
#include <gradstep/keyed/table.hpp>
#include <gradstep/striped.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A keyed_table for concurrent updates: you can call `update`, `row` and `rows` from any number of
/// threads at once, as with striped tables. If several calls contain a new key, it is admitted
/// once, and its row begins in the first of these steps. Until then, readers see its initial
/// values.
///
///     gs::striped features{gs::keyed_table{optimizer, width, gs::exact{}, {.admit_after = 3}}};
///     features.update(keys, gradient_rows);                       // from any thread
///     features.alone([](auto& table) { table.evict_to(1'000'000); });
///
/// Lookups run concurrently. New keys are added under the lock on the order of the steps. If memory
/// for rows must be allocated, the call waits for exclusive access; `reserve` avoids this.
template <class Updater, class CatchUp> class striped<keyed_table<Updater, CatchUp>> {
    using table_type = keyed_table<Updater, CatchUp>;
    using shared_guard = detail::phase_fair_mutex::shared_guard;
    using key_span = std::span<std::uint64_t const>;
    static_assert(detail::require_concurrent<Updater, CatchUp>());

public:
    /// The type of a value in memory.
    using storage = typename table_type::storage;

    /// Takes ownership of the table. Row numbers are mapped to `stripes` stripes, 8 bytes each,
    /// rounded up to a power of two; default 2^18. Throws value_error unless they are in [1, 2^31].
    explicit striped(table_type owned, std::optional<std::size_t> stripes = {})
        : table_(std::move(owned)),
          turns_(stripes, std::size_t{1} << 18, &detail::concurrent_call_of<Updater, CatchUp>::make) {}

    /// keyed_table::update, from any thread. It checks its arguments before it writes anything.
    template <class Keys, class Gradients>
    void update(Keys&& keys, Gradients&& gradient_rows, step_options const& options = {}) {
        auto const names = detail::keys_of<Updater>(keys);
        apply(names, detail::gradients_of<Updater>(gradient_rows), names.size(), "keys", nullptr, options);
    }
    /// keyed_table::update with pooled gradients, from any thread.
    template <class Keys, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(Keys&& keys, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {}) {
        auto const names = detail::keys_of<Updater>(keys);
        detail::given_ids const begins = detail::ids_of<Updater>(offsets);
        auto const given = detail::gradients_of<Updater>(bag_rows);
        apply(names, given, given.size / width(), "bags", &begins, options);
    }

    /// Returns a copy of the row of `key` with all steps applied, or its initial values, from any
    /// thread.
    std::vector<storage> row(std::uint64_t key) const {
        std::vector<storage> out(width());
        row(key, out);
        return out;
    }
    template <class Out> void row(std::uint64_t key, Out&& out) const {
        detail::require_lasting<Out>();
        rows(std::span<std::uint64_t const>(&key, 1), out);
    }
    /// The same for several keys, each row atomically, written to the caller's memory of
    /// keys.size() x width elements.
    template <class Keys, class Out> void rows(Keys&& keys, Out&& out) const {
        detail::require_lasting<Out>();
        auto const names = detail::keys_of<Updater>(keys);
        auto const to = detail::as_span<storage, host_memory>(out);
        core().with_memory(names.size(), [&] { read(names, to); });
    }

    /// Returns f(table) with exclusive access, as with striped tables: for eviction, holds, changes
    /// and checkpoints. All other calls wait.
    template <class F> decltype(auto) alone(F&& f) {
        detail::phase_fair_mutex::exclusive_guard const entered(turns_.phase);
        turns_.forget_calls();
        return std::forward<F>(f)(table_);
    }
    /// Allocates memory for this many rows in total (keyed_table::reserve), with exclusive access.
    void reserve(std::uint64_t rows) {
        alone([&](table_type& table) { table.reserve(rows); });
    }

    /// The number of rows, `num_rows()`; the elements of a row, `width()`; and the `clock()`.
    std::uint64_t num_rows() const {
        shared_guard const entered(turns_.phase);
        auto const lock = turns_.ordering();
        return table_.num_rows();
    }
    std::size_t width() const { return table_.width(); } // never changes
    gradstep::clock clock() const {
        shared_guard const entered(turns_.phase);
        auto const lock = turns_.ordering();
        return table_.clock();
    }

private:
    detail::keyed_core& core() { return table_.core(); }
    detail::keyed_core const& core() const { return table_.core(); }

    void find(key_span keys, std::span<std::int32_t> ids) const {
        constexpr std::size_t most = 4096; // keys per lock, so that calls with new keys can go on
        for (std::size_t first = 0; first < keys.size(); first += most) {
            std::size_t const count = std::min(most, keys.size() - first);
            shared_guard const entered(index_);
            core().index.find(keys.subspan(first, count), reinterpret_cast<std::uint32_t*>(ids.data() + first));
        }
    }

    void read(key_span keys, std::span<storage> out) const {
        shared_guard const entered(turns_.phase);
        detail::table_core const& stored = core().stored;
        {
            auto const lock = turns_.ordering();
            stored.rows().check_room(stored.place(), detail::extent::of("out", out), out.size(), keys.size());
        }
        detail::row_turns::scratch_lease lent(turns_, stored.rows());
        std::vector<std::int32_t>& ids = (*lent).ids;
        ids.resize(keys.size());
        find(keys, ids);
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (ids[k] == detail::keyed_core::no_row)
                detail::fill_rows(table_.options().initial, out.data() + k * width(), keys[k], 1, width());
        turns_.read(stored.rows(), stored.place(), *lent, std::span<std::int32_t const>(ids),
                    stored.average_is_applied(), reinterpret_cast<std::byte*>(out.data()));
    }

    // `offsets`: of the bags; null if each key has a gradient.
    void apply(key_span keys, detail::given_values const& gradients, std::size_t count, char const* what,
               detail::given_ids const* offsets, step_options const& options) {
        while (true) {
            std::uint64_t wanted = 0;
            {
                shared_guard const entered(turns_.phase);
                wanted = core().with_memory(keys.size(),
                                            [&] { return step(keys, gradients, count, what, offsets, options); });
            }
            if (wanted == 0) return;
            reserve(wanted);
        }
    }
    // Returns 0, or, before anything has happened, the number of rows for which memory is needed.
    std::uint64_t step(key_span keys, detail::given_values const& gradients, std::size_t count, char const* what,
                       detail::given_ids const* offsets, step_options const& options) {
        detail::table_core& stored = core().stored;
        detail::row_core& rows = stored.rows();
        stored.require_trained("update");
        detail::row_turns::scratch_lease lent(turns_, rows);
        auto& work = *lent;
        work.ids.resize(keys.size());
        std::span<std::int32_t> const ids(work.ids);
        find(keys, ids);
        auto const* const sources = offsets == nullptr ? nullptr : work.grouping().bags(*offsets, keys.size(), count);
        std::uint64_t known_rows = 0;
        {
            auto const lock = turns_.ordering();
            known_rows = table_.num_rows();
            rows.check_gradients(stored.place(), gradients, count, what, options);
        }
        std::uint64_t const left_out = core().leave_out_nonfinite(keys, ids, sources, gradients);
        auto const leave_out = [&] {
            if (left_out != 0)
                std::replace(ids.begin(), ids.end(), detail::keyed_core::left_out_row, detail::keyed_core::no_row);
        };
        bool const brings_new = core().count_new(keys, ids) != 0;
        auto const group = [&](std::uint64_t num_rows) {
            core().naming_keys(keys, ids, [&] {
                turns_.group(rows, stored.place(), work, std::span<std::int32_t const>(ids), sources, gradients,
                             num_rows);
            });
        };
        if (!brings_new) {
            leave_out();
            group(known_rows);
        }

        auto ordering = turns_.ordering();
        // A new key cannot be found before it is certain to stay.
        std::optional<detail::phase_fair_mutex::exclusive_guard> with_index;
        detail::rollback_guard const admitting([&, before = table_.num_rows(), counts = core().counts] {
            if (with_index) core().forget_new(before, counts);
        });
        if (brings_new) {
            // Other calls may have added some of them meanwhile: this then counts too many.
            std::uint64_t const most = table_.num_rows() + core().count_new(keys, ids);
            if (most > table_.capacity() && table_.capacity() < core().most()) {
                return std::min(most, core().most());
            }
            with_index.emplace(index_);
            core().admit(keys, ids);
            leave_out();
            group(table_.num_rows());
        }
        turns_.step(rows, stored.place(), work, ordering, gradients, options, [&](std::size_t) {
            core().finish_step(ids);
            core().counts.left_out += left_out;
            with_index.reset();
        });
        rows.zero(gradients, options);
        return 0;
    }

    table_type table_;
    detail::row_turns turns_;
    mutable detail::phase_fair_mutex index_; // locked exclusively to add keys
};
template <class Updater, class CatchUp>
striped(keyed_table<Updater, CatchUp>) -> striped<keyed_table<Updater, CatchUp>>;
template <class Updater, class CatchUp>
striped(keyed_table<Updater, CatchUp>, std::size_t) -> striped<keyed_table<Updater, CatchUp>>;
} // namespace gradstep::inline GRADSTEP_ISA
