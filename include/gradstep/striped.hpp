#pragma once
#include <gradstep/striped/detail/locks.hpp>
#include <gradstep/striped/detail/turns.hpp>
#include <gradstep/table.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Lets several threads update and read the rows of one table: exclusive access, the order of the
// steps, and the turns of each row. striped and striped keyed tables own one. Invariant: tickets of
// a row are drawn in the order of the steps, under one lock; a row is updated when its ticket's
// turn comes.
template <class Table> class row_serializer {
    using updater_type = typename Table::updater_type;
    using backend_type = typename updater_type::backend_type;
    using missed = typename decltype(std::declval<Table const&>().reader())::missed;
    using compute = typename updater_type::traits::compute;
    using storage = typename Table::storage;
    using pack = typename backend_type::template pack<compute>;
    static_assert(Table::on_host, "gradstep: striped: the locks are on the host; expected a table of a host backend");
    static_assert(!Table::plans_read_history, "gradstep: striped: replay reads the history while other threads add to "
                                              "it; expected gs::exact or gs::touch_only");

public:
    using engine_type = host_rows<updater_type>;

    row_serializer(std::optional<std::size_t> stripes, std::uint64_t num_rows) : turns_(checked(stripes, num_rows)) {}

    // How many rows ahead a ticket is prefetched. Drawing one takes a few nanoseconds.
    static constexpr std::size_t turns_ahead = 32;

    // What a call does with a row, and when.
    struct turn {
        std::uint64_t row;
        detail::turns::ticket ticket;
        GRADSTEP_NO_UNIQUE_ADDRESS missed plan;
    };
    // The scratch memory of one call, kept for the next call.
    struct call_scratch {
        engine_type engine;
        scratch<turn> turns;
        scratch<std::size_t> later;    // the turns that had not come yet
        scratch<std::size_t> indices;  // of the rows that are read
        std::vector<std::int32_t> ids; // of keys
        std::vector<compute, line_allocator<compute>> staged;
        detail::turns::sleeper sleeper;
        std::unique_ptr<call_scratch> next; // the next free one

        turn* room_for(std::size_t rows) {
            later.of_size(rows);
            return turns.of_size(rows);
        }
    };
    // Leases a call_scratch, a free one if there is one.
    class scratch_lease {
    public:
        explicit scratch_lease(row_serializer const& from) : from_(from) {
            {
                plain_guard const lock(from_.free_lock_);
                leased_ = std::move(from_.free_);
                if (leased_) from_.free_ = std::move(leased_->next);
            }
            if (!leased_) leased_ = std::make_unique<call_scratch>();
        }
        ~scratch_lease() {
            plain_guard const lock(from_.free_lock_);
            leased_->next = std::move(from_.free_);
            from_.free_ = std::move(leased_);
        }
        scratch_lease(scratch_lease const&) = delete;
        scratch_lease& operator=(scratch_lease const&) = delete;
        call_scratch& operator*() { return *leased_; }

    private:
        row_serializer const& from_;
        std::unique_ptr<call_scratch> leased_;
    };

    // Locks the order of the steps.
    plain_guard ordering() const { return plain_guard(order_); }

    // One step of a batch of distinct rows. `ordering` is locked until the step has its number and
    // nothing more can throw; on_begin() is called just before it is unlocked.
    template <class Id, class OnBegin>
    void step(Table& table, call_scratch& work, plain_guard& ordering, batch_rows<Id> const& batch,
              std::span<storage const> gradients, step_options const& options, OnBegin const& on_begin) {
        work.staged.resize(table.width());
        // Under the lock, in this order: everything that can throw, the number of the step, the
        // pending steps of every row.
        auto const [first_due, last_due] = table.stale_rows();
        auto const due_count = static_cast<std::size_t>(last_due - first_due), count = due_count + batch.count;
        turn* next = work.room_for(count);
        auto const step = table.begin(batch, gradients, options, work.engine.left_out());
        on_begin();
        auto const& due = step.due;
        auto const& of_batch = step.of_batch;
        for (std::uint64_t id = first_due; id < last_due; ++id) *next++ = {id, turns_.draw(id), due.plan(id)};
        for (std::size_t r = 0; r < batch.count; ++r) {
            if (r + turns_ahead < batch.count) {
                turns_.prefetch(of_batch.id(r + turns_ahead));
                of_batch.prefetch_last_step(r + turns_ahead);
            }
            *next++ = {of_batch.id(r), turns_.draw(of_batch.id(r)), of_batch.plan(r)};
        }
        ordering.release();

        in_turn(
            table, work, count,
            [&](std::size_t k) GRADSTEP_INLINE_LAMBDA {
                if (k >= due_count) of_batch.prefetch(k - due_count);
                else due.rows.prefetch(step.first_due + k);
            },
            [&](std::size_t k, turn const& now) {
                if (k >= due_count) of_batch.template run<pack>(k - due_count, now.plan, work.staged.data());
                else if (now.plan.any()) due.template apply<pack>(now.row, now.plan);
            });
    }
    // Copies rows to `out`, each atomically. Where is_row(id) is false, `out` does not change.
    template <class Id, class IsRow>
    void read(Table const& table, call_scratch& work, std::span<Id const> ids, storage* out,
              IsRow const& is_row) const {
        turn* const all = work.room_for(ids.size());
        std::size_t* const indices = work.indices.of_size(ids.size());
        plain_guard lock(order_);
        auto const reader = table.reader();
        std::size_t count = 0;
        for (std::size_t k = 0; k < ids.size(); ++k) {
            if (k + turns_ahead < ids.size() && is_row(ids[k + turns_ahead])) {
                auto const ahead = static_cast<std::uint64_t>(ids[k + turns_ahead]);
                turns_.prefetch(ahead);
                reader.rows.prefetch_last_step(ahead);
            }
            if (!is_row(ids[k])) continue;
            auto const id = static_cast<std::uint64_t>(ids[k]);
            all[count] = {id, turns_.draw(id), reader.rows.missed_by(reader.history, id)};
            indices[count++] = k;
        }
        lock.release();
        in_turn(
            table, work, count, [&](std::size_t k) GRADSTEP_INLINE_LAMBDA { reader.rows.prefetch(all[k].row); },
            [&](std::size_t k, turn const& now) {
                reader.template read<pack>(now.row, now.plan, out + indices[k] * table.width());
            });
    }

    mutable phase_fair_mutex phase; // locked exclusively by `alone`

private:
    static std::size_t checked(std::optional<std::size_t> stripes, std::uint64_t num_rows) {
        constexpr std::uint64_t few = 1 << 12, many = 1 << 18, most = std::uint64_t{1} << 31;
        std::uint64_t const count = stripes.value_or(std::clamp(num_rows, few, many));
        if (count == 0 || count > most)
            fail<value_error>({"striped: stripes"}, {count, " is out of range"}, {"[1, ", most, "]"});
        return count;
    }
    // Calls f(k, turn) for each of `count` turns when it has come, first for turns that have come
    // already, and fetch(k) some turns ahead. Tickets are drawn under one lock, so every wait is
    // for a call that began earlier. f must not throw.
    template <class Fetch, class F>
    void in_turn(Table const& table, call_scratch& work, std::size_t count, Fetch const& fetch, F const& f) const {
        turn const* const all = work.turns.of_size(count);
        std::size_t* const later = work.later.of_size(count);
        // Looking for sleepers costs as much as a short row. Looks once per 16 KiB of values;
        // sleepers wait until then.
        std::size_t const rows_per_check = std::max<std::size_t>(1, 4096 / table.width());
        table.optimizer().backend().for_each_part(1, [&](std::size_t) {
            std::size_t postponed = 0, until_check = rows_per_check;
            auto const serve = [&](std::size_t k) {
                f(k, all[k]);
                turns_.serve(all[k].ticket);
                if (--until_check != 0) return;
                turns_.wake();
                until_check = rows_per_check;
            };
            auto const fetch_later = [&](std::size_t k) GRADSTEP_INLINE_LAMBDA {
                if (k >= count) return;
                turns_.prefetch(all[k].ticket);
                fetch(k);
            };
            for (std::size_t k = 0; k < rows_ahead; ++k) fetch_later(k);
            for (std::size_t k = 0; k < count; ++k) {
                fetch_later(k + rows_ahead);
                if (turns_.has_come(all[k].ticket)) serve(k);
                else later[postponed++] = k;
            }
            for (std::size_t j = 0; j < postponed; ++j) {
                turns_.wait(all[later[j]].ticket, work.sleeper);
                serve(later[j]);
            }
            turns_.wake();
        });
    }

    mutable detail::turns turns_; // drawn under order_
    mutable plain_mutex order_;   // of the clock, the stamps and the history
    mutable plain_mutex free_lock_;
    mutable std::unique_ptr<call_scratch> free_;
};

// A row_updater with the memory of its rows, as row_serializer and striped use a table.
template <class Updater, class CatchUp> class rows_in_memory {
    using rows_type = row_updater<Updater, CatchUp>;
    using core_type = row_core<Updater, CatchUp>;

public:
    using updater_type = Updater;
    using storage = typename rows_type::storage;
    static constexpr bool on_host = std::is_same_v<typename Updater::backend_type::memory_space, host_memory>,
                          plans_read_history = core_type::form == catch_up_form::steps;

    rows_in_memory(rows_type&& of, row_memory<Updater> const& its) : rows(std::move(of)), memory(its) { binding(); }
    explicit rows_in_memory(rows_type&& of) : rows(std::move(of)) {
        static_assert(sizeof(Updater) == 0,
                      "gradstep: striped: a row_updater has no rows; expected gs::striped{rows, memory}");
    }
    // The memory, checked: `alone` can have changed it.
    row_memory<Updater> const& binding() const {
        shape().check(memory);
        return memory;
    }
    template <class Id>
    auto begin(batch_rows<Id> const& batch, std::span<storage const> gradients, step_options const& options,
               std::size_t left_out) {
        return rows.core().begin(memory, batch, gradients, options, left_out);
    }
    auto reader() const { return rows.core().reader(memory); }
    auto const& shape() const { return rows.core().shape; }
    std::pair<std::uint64_t, std::uint64_t> stale_rows() const { return rows.stale_rows(); }
    std::uint64_t num_rows() const { return rows.num_rows(); }
    std::size_t width() const { return rows.width(); }
    gradstep::clock clock() const { return rows.clock(); }
    Updater const& optimizer() const { return rows.optimizer(); }
    table_options const& options() const { return rows.options(); }

    rows_type rows;
    row_memory<Updater> memory;
};
// What striped<Table> owns.
template <class Table> struct striped_rows { using type = Table; };
template <class Updater, class CatchUp> struct striped_rows<row_updater<Updater, CatchUp>> {
    using type = rows_in_memory<Updater, CatchUp>;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// A table for concurrent updates, as in an asynchronous parameter server: you can call `update`,
/// `row` and `rows` from any number of threads at once.
///
///     gs::striped shared{gs::table{optimizer, num_rows, width, gs::exact{}}};
///     shared.update(ids, gradient_rows);                  // from any thread
///     shared.alone([](auto& table) { table.flush(); });   // waits for running calls
///
/// With a row_updater it updates rows of memory that you own, which must outlive it:
///
///     gs::row_updater rows{optimizer, num_rows, width};
///     auto memory = rows.memory(values, sums);
///     rows.initialize(memory);
///     gs::striped shared{std::move(rows), memory};
///     shared.update(ids, gradient_rows);                  // from any thread
///     shared.alone([](auto& rows, auto& memory) { rows.flush(memory); });
///
/// Other code can read or write this memory while no call runs, or within `alone`. At any other
/// time that is a data race, also for a reader: read with `row` and `rows`.
///
/// Guarantees: every batch is a step with its own number. Every row gets the batches that contain
/// it in the order of these numbers, each as a whole. So no update is lost, and a row catches up
/// once on each step it missed. The rows equal, bit for bit, the rows of a table that got the
/// batches in this order. A reader sees a row after all batches that began before the read, and
/// none that began later.
///
/// Not guaranteed: the order of concurrent batches, and that a reader sees a concurrent batch in
/// all of its rows or in none.
///
/// A call determines the pending steps of its rows under one lock (some nanoseconds per row) and
/// draws a ticket from the stripe of each row. A row is updated when its ticket's turn comes; other
/// rows go first. A call runs on its caller's thread, which sleeps if it must wait. Supports
/// touch_only and exact, and CPU backends.
///
/// Do not call it from within another call on the same thread (from a schedule, or from the f of
/// `alone`): it would deadlock.
template <class Table> class striped {
    using rows_type = typename detail::striped_rows<Table>::type;
    static constexpr bool owns_rows = std::is_same_v<rows_type, Table>;
    using updater_type = typename Table::updater_type;
    using backend_type = typename updater_type::backend_type;
    using engine_type = detail::host_rows<updater_type>;
    using turns_type = detail::row_serializer<rows_type>;
    using shape_type = std::remove_cvref_t<decltype(std::declval<rows_type const&>().shape())>;
    using shared_guard = detail::phase_fair_mutex::shared_guard;

public:
    /// The type of a value in memory.
    using storage = typename Table::storage;

    /// Takes ownership of the table. A hash of the row number maps each row to one of `stripes`
    /// stripes, 8 bytes each, rounded up to a power of two. By default there are as many as rows,
    /// but at least 2^12 and at most 2^18. Throws value_error unless they are in [1, 2^31].
    explicit striped(Table owned, std::optional<std::size_t> stripes = {})
        : table_(std::move(owned)), turns_(stripes, table_.num_rows()) {}
    /// The same for rows of your memory, with the steps that `rows` has taken so far. It takes
    /// ownership of the row_updater, not of the memory. Throws the errors of row_updater::memory.
    explicit striped(Table rows, row_memory<updater_type> const& memory,
                     std::optional<std::size_t> stripes = {}) requires(!owns_rows)
        : table_(std::move(rows), memory), turns_(stripes, table_.num_rows()) {}

    /// table::update, from any thread. It checks its arguments before it writes anything.
    template <class Ids, class Gradients>
    void update(Ids&& ids, Gradients&& gradient_rows, step_options const& options = {}) {
        shared_guard const entered(turns_.phase);
        auto const id_span = shape_type::ids_of(ids);
        table_.shape().gradients(table_.binding(), gradient_rows, id_span.size(), "ids", options);
        apply(id_span, gradient_rows, options, [](auto&) -> std::uint32_t const* { return nullptr; });
    }
    /// table::update with pooled gradients, from any thread.
    template <class Ids, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(Ids&& ids, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {}) {
        shared_guard const entered(turns_.phase);
        auto const id_span = shape_type::ids_of(ids);
        auto const offset_span = shape_type::ids_of(offsets);
        std::size_t const bags = detail::traits_of<Gradients>::size(bag_rows) / table_.width();
        table_.shape().gradients(table_.binding(), bag_rows, bags, "bags", options);
        apply(id_span, bag_rows, options,
              [&](engine_type& on) { return on.bags(backend(), offset_span, id_span.size(), bags); });
    }

    /// Returns a copy of row `id` with all steps applied, from any thread.
    std::vector<storage> row(std::int64_t id) const {
        std::vector<storage> out(width());
        row(id, out);
        return out;
    }
    template <class Out> void row(std::int64_t id, Out&& out) const {
        detail::require_lasting<Out>();
        rows(std::span<std::int64_t const>(&id, 1), out);
    }
    /// Writes copies of several rows with all steps applied, each row atomically, to the caller's
    /// memory of ids.size() x width elements.
    template <class Ids, class Out> void rows(Ids&& ids, Out&& out) const {
        detail::require_lasting<Out>();
        shared_guard const entered(turns_.phase);
        auto const id_span = shape_type::ids_of(ids);
        auto const memory = table_.binding();
        auto const to = table_.shape().room(memory, id_span.size(), out);
        detail::check_ids(id_span, table_.num_rows(), std::nullopt);
        typename turns_type::scratch_lease lent(turns_);
        turns_.read(table_, *lent, id_span, to.data(), [](auto) { return true; });
    }

    /// Returns f(table), with exclusive access: for flush, changes of rows, checkpoints. Running
    /// calls finish first. New calls wait until f has returned or thrown, and go before the next f:
    /// each thread that calls in a loop gets one call before f. Callers of `alone` are served in
    /// order. With rows of your memory it returns f(rows, memory), the row_updater and the
    /// row_memory. To grow, or to move the memory, assign a new `rows.memory(...)` to `memory`.
    template <class F> decltype(auto) alone(F&& f) {
        detail::phase_fair_mutex::exclusive_guard const entered(turns_.phase);
        if constexpr (owns_rows) return std::forward<F>(f)(table_);
        else return std::forward<F>(f)(table_.rows, table_.memory);
    }

    /// The number of rows, `num_rows()`; the elements of a row, `width()`; and the `clock()`.
    std::uint64_t num_rows() const {
        shared_guard const entered(turns_.phase);
        return table_.num_rows();
    }
    std::size_t width() const {
        shared_guard const entered(turns_.phase);
        return table_.width();
    }
    gradstep::clock clock() const {
        shared_guard const entered(turns_.phase);
        auto const lock = turns_.ordering();
        return table_.clock();
    }

private:
    backend_type const& backend() const { return table_.optimizer().backend(); }

    template <class Id, class Gradients, class Sources>
    void apply(std::span<Id const> ids, Gradients& gradients, step_options const& options, Sources const& sources_of) {
        typename turns_type::scratch_lease lent(turns_);
        auto& work = *lent;
        auto const given = detail::as_span<storage const, host_memory>(gradients);
        // One share: the concurrent callers provide the parallelism.
        auto const batch = work.engine
                               .group(backend(), ids, sources_of(work.engine), given, table_.width(), table_.num_rows(),
                                      table_.options(), std::size_t{0})[0]
                               .batch;
        constexpr std::size_t usual_due_rows = 64; // usually enough, so that there is room for them under the lock
        work.room_for(usual_due_rows + batch.count);
        auto ordering = turns_.ordering();
        turns_.step(table_, work, ordering, batch, given, options, [] {});
        table_.shape().zero(backend(), gradients, options);
    }

    rows_type table_;
    turns_type turns_;
};
template <class Updater, class CatchUp> striped(table<Updater, CatchUp>) -> striped<table<Updater, CatchUp>>;
template <class Updater, class CatchUp>
striped(table<Updater, CatchUp>, std::size_t) -> striped<table<Updater, CatchUp>>;
template <class Updater, class CatchUp>
striped(row_updater<Updater, CatchUp>, row_memory<Updater>) -> striped<row_updater<Updater, CatchUp>>;
template <class Updater, class CatchUp>
striped(row_updater<Updater, CatchUp>, row_memory<Updater>, std::size_t) -> striped<row_updater<Updater, CatchUp>>;
} // namespace gradstep::inline GRADSTEP_ISA
