#pragma once
#include <gradstep/keyed/table.hpp>
#include <gradstep/striped.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// What striped<Table> needs of a table whose rows have keys: how calls give keys and buffers, and
// how several threads update its rows.
template <class Table> struct striped_keys;
template <class Updater, class CatchUp> struct striped_keys<keyed_table<Updater, CatchUp>> {
    static_assert(require_concurrent<Updater, CatchUp>());
    using storage = typename Updater::traits::storage;
    static constexpr auto make_call = &concurrent_call_of<Updater, CatchUp>::make;

    keyed_table<Updater, CatchUp> table;

    template <class Keys> auto keys(Keys& of) const { return keys_of<Updater>(of); }
    template <class Ids> given_ids ids(Ids& of) const { return ids_of<Updater>(of); }
    template <class Gradients> given_values gradients(Gradients& of) const { return gradients_of<Updater>(of); }
    // Room for copies of rows; and the initial values of a key there.
    template <class Out> extent room(Out& out) const { return extent::of("out", as_span<storage, host_memory>(out)); }
    void fill(std::uint64_t key, std::byte* to) const {
        fill_rows(table.options().initial, reinterpret_cast<storage*>(to), key, 1, table.width());
    }
};
template <class Table> concept has_keys = requires { striped_keys<Table>::make_call; };
} // namespace gradstep::detail::inline GRADSTEP_ISA

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
template <detail::has_keys Table> class striped<Table> {
    using shared_guard = detail::phase_fair_mutex::shared_guard;
    using key_span = std::span<std::uint64_t const>;

public:
    /// The type of a value in memory.
    using storage = typename detail::striped_keys<Table>::storage;

    /// Takes ownership of the table. Row numbers are mapped to `stripes` stripes, 8 bytes each,
    /// rounded up to a power of two; default 2^18. Throws value_error unless they are in [1, 2^31].
    explicit striped(Table owned, std::optional<std::size_t> stripes = {})
        : its_{std::move(owned)}, turns_(stripes, std::size_t{1} << 18, detail::striped_keys<Table>::make_call) {}

    /// keyed_table::update, from any thread. It checks its arguments before it writes anything.
    template <class Keys, class Gradients>
    void update(Keys&& keys, Gradients&& gradient_rows, step_options const& options = {}) {
        auto const names = its_.keys(keys);
        auto const given = with_table([&] { return its_.gradients(gradient_rows); });
        apply(names, given, names.size(), "keys", options);
    }
    /// keyed_table::update with pooled gradients, from any thread.
    template <class Keys, class Offsets, class Gradients>
    requires detail::is_no_option<Gradients>
    void update(Keys&& keys, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {},
                bag_options const& how = {}) {
        auto const names = its_.keys(keys);
        detail::given_ids const begins = its_.ids(offsets);
        std::size_t bags = 0;
        auto const given = with_table([&] {
            auto const rows = its_.gradients(bag_rows);
            bags = rows.size / its_.table.width();
            return rows;
        });
        apply(names, given, bags, "bags", options, &begins, how);
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
        auto const names = its_.keys(keys);
        detail::extent const to = with_table([&] { return its_.room(out); });
        core().with_memory(names.size(), [&] { read(names, to); });
    }

    /// keyed_table::bags, from any thread: each row is read atomically.
    template <class Keys, class Offsets, class Out>
    void bags(Keys&& keys, Offsets&& offsets, Out&& out, bag_options const& bags = {}) const {
        detail::require_lasting<Out>();
        auto const names = its_.keys(keys);
        detail::given_ids const begins = its_.ids(offsets);
        detail::extent const to = with_table([&] { return its_.room(out); });
        core().with_memory(names.size(), [&] { read_bags(names, begins, to, bags); });
    }

    /// Returns f(table) with exclusive access, as with striped tables: for eviction, holds, changes
    /// and checkpoints. All other calls wait.
    template <class F> decltype(auto) alone(F&& f) {
        detail::phase_fair_mutex::exclusive_guard const entered(turns_.phase);
        turns_.forget_calls();
        return std::forward<F>(f)(its_.table);
    }
    /// Allocates memory for this many rows in total (keyed_table::reserve), with exclusive access.
    void reserve(std::uint64_t rows) {
        alone([&](Table& table) { table.reserve(rows); });
    }

    /// The number of rows, `num_rows()`; the elements of a row, `width()`; and the `clock()`.
    std::uint64_t num_rows() const {
        shared_guard const entered(turns_.phase);
        auto const lock = turns_.ordering();
        return its_.table.num_rows();
    }
    std::size_t width() const {
        return with_table([&] { return its_.table.width(); });
    }
    gradstep::clock clock() const {
        shared_guard const entered(turns_.phase);
        auto const lock = turns_.ordering();
        return its_.table.clock();
    }

private:
    // f(), while no call has exclusive access: a load replaces the parts of the table.
    template <class F> auto with_table(F const& f) const {
        shared_guard const entered(turns_.phase);
        return f();
    }
    detail::keyed_core& core() { return its_.table.core(); }
    detail::keyed_core const& core() const { return its_.table.core(); }

    void find(key_span keys, std::span<std::int32_t> ids) const {
        constexpr std::size_t most = 4096; // keys per lock, so that calls with new keys can go on
        for (std::size_t first = 0; first < keys.size(); first += most) {
            std::size_t const count = std::min(most, keys.size() - first);
            shared_guard const entered(index_);
            core().index.find(keys.subspan(first, count), reinterpret_cast<std::uint32_t*>(ids.data() + first));
        }
    }

    void read(key_span keys, detail::extent const& out) const {
        shared_guard const entered(turns_.phase);
        detail::table_core const& stored = core().stored;
        {
            auto const lock = turns_.ordering();
            stored.rows().check_room(stored.place(), out, out.size, keys.size());
        }
        detail::row_turns::scratch_lease lent(turns_, stored.rows());
        std::vector<std::int32_t>& ids = (*lent).ids;
        ids.resize(keys.size());
        find(keys, ids);
        auto* const to = static_cast<std::byte*>(const_cast<void*>(out.data));
        std::size_t const bytes = stored.width() * stored.rows().facts().storage_bytes;
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (ids[k] == detail::keyed_core::no_row) its_.fill(keys[k], to + k * bytes);
        turns_.read(stored.rows(), stored.place(), *lent, std::span<std::int32_t const>(ids),
                    stored.average_is_applied(), to);
    }

    void read_bags(key_span keys, detail::given_ids offsets, detail::extent const& out, bag_options const& how) const {
        shared_guard const entered(turns_.phase);
        detail::table_core const& stored = core().stored;
        detail::pooled_call call;
        {
            auto const lock = turns_.ordering();
            call = stored.rows().pooled(stored.place(), keys, core().padding(), offsets, how, out);
        }
        detail::row_turns::scratch_lease lent(turns_, stored.rows());
        std::vector<std::int32_t>& ids = (*lent).ids;
        ids.resize(keys.size());
        find(keys, ids);
        call.ids = std::span<std::int32_t const>(ids);
        turns_.pool(stored.rows(), stored.place(), *lent, call, stored.average_is_applied(),
                    [&](std::uint64_t key, std::byte* to) { its_.fill(key, to); });
    }

    // `offsets`: of the bags; null if each key has a gradient.
    void apply(key_span keys, detail::given_values const& gradients, std::size_t count, char const* what,
               step_options const& options, detail::given_ids const* offsets = nullptr, bag_options const& bags = {}) {
        while (true) {
            std::uint64_t wanted = 0;
            {
                shared_guard const entered(turns_.phase);
                wanted = core().with_memory(keys.size(),
                                            [&] { return step(keys, gradients, count, what, options, offsets, bags); });
            }
            if (wanted == 0) return;
            reserve(wanted);
        }
    }
    // Returns 0, or, before anything has happened, the number of rows for which memory is needed.
    std::uint64_t step(key_span keys, detail::given_values const& gradients, std::size_t count, char const* what,
                       step_options const& options, detail::given_ids const* offsets, bag_options const& bags) {
        detail::table_core& stored = core().stored;
        detail::row_core& rows = stored.rows();
        stored.require_trained("update");
        detail::row_turns::scratch_lease lent(turns_, rows);
        auto& work = *lent;
        work.ids.resize(keys.size());
        std::span<std::int32_t> const ids(work.ids);
        find(keys, ids);
        std::uint64_t known_rows = 0;
        detail::given_bags its;
        {
            auto const lock = turns_.ordering();
            known_rows = its_.table.num_rows();
            rows.check_gradients(stored.place(), gradients, count, what, options);
            if (offsets != nullptr) its = rows.bags_of(stored.place(), *offsets, bags, keys.size());
        }
        detail::row_sources sources;
        if (offsets != nullptr) sources = work.grouping().bags(its, keys, core().padding(), count);
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
        detail::rollback_guard const admitting([&, before = its_.table.num_rows(), counts = core().counts] {
            if (with_index) core().forget_new(before, counts);
        });
        if (brings_new) {
            // Other calls may have added some of them meanwhile: this then counts too many.
            std::uint64_t const most = its_.table.num_rows() + core().count_new(keys, ids);
            if (most > its_.table.capacity() && its_.table.capacity() < core().most()) {
                return std::min(most, core().most());
            }
            with_index.emplace(index_);
            core().admit(keys, ids);
            leave_out();
            group(its_.table.num_rows());
        }
        turns_.step(rows, stored.place(), work, ordering, gradients, options, [&](std::size_t) {
            core().finish_step(ids);
            core().counts.left_out += left_out;
            with_index.reset();
        });
        rows.zero(gradients, options);
        return 0;
    }

    detail::striped_keys<Table> its_;
    detail::row_turns turns_;
    mutable detail::phase_fair_mutex index_; // locked exclusively to add keys
};
template <detail::has_keys Table> striped(Table) -> striped<Table>;
template <detail::has_keys Table> striped(Table, std::size_t) -> striped<Table>;
} // namespace gradstep::inline GRADSTEP_ISA
