#pragma once
#include <gradstep/striped/detail/row_turns.hpp>
#include <gradstep/table.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Whether several threads can update the rows of a table of these types.
template <class Updater, class CatchUp> constexpr bool require_concurrent() {
    static_assert(std::is_same_v<typename Updater::backend_type::memory_space, host_memory>,
                  "gradstep: striped: the locks are on the host; expected a table of a host backend");
    static_assert(!row_updater<Updater, CatchUp>::plans_read_history,
                  "gradstep: striped: replay reads the history while other threads add to it; "
                  "expected gs::exact or gs::touch_only");
    return true;
}

// For calls whose third argument is gradients, or the options of a call without offsets.
template <class T> concept is_no_option = !std::is_same_v<std::remove_cvref_t<T>, step_options>;

// What striped<Table> owns, with the rows and their place for row_turns: a table, or a row_updater
// with the memory of its rows.
template <class Table> struct striped_rows;
template <class Updater, class CatchUp> struct striped_rows<table<Updater, CatchUp>> {
    using storage = typename Updater::traits::storage;
    using memory_type = void*; // it has its own
    static constexpr bool owns_rows = true;
    static constexpr bool is_concurrent() { return require_concurrent<Updater, CatchUp>(); }
    static constexpr auto make_call = &concurrent_call_of<Updater, CatchUp>::make;
    gradstep::table<Updater, CatchUp> table;

    // The arguments of calls, checked as far as they do not depend on the rows.
    template <class Ids> given_ids ids(Ids& of) const { return ids_of<Updater>(of); }
    template <class Gradients> given_values gradients(Gradients& of) const { return gradients_of<Updater>(of); }
    template <class Ids, class Out, class Read>
    void read(row_place const& place, Ids& of, Out& out, Read const& read) const {
        read_rows<Updater, storage>(rows(), place, of, out, read);
    }
    template <class Ids, class Offsets, class Out>
    pooled_call pooled(row_place const& place, Ids& of, Offsets& offsets, Out& out, bag_options const& how) const {
        return pooled_rows_of<Updater>(rows(), place, of, offsets, out, how);
    }

    row_core const& rows() const { return table.core().rows(); }
    row_core& rows() { return table.core().rows(); }
    bool average_is_applied() const { return table.average_is_applied(); }
    // Calls f(place) for the memory of the rows.
    template <class F> void placed(F const& f) const { f(table.core().place()); }
    template <class F> decltype(auto) alone(F& f) { return std::forward<F>(f)(table); }
};
template <class Updater, class CatchUp> struct striped_rows<row_updater<Updater, CatchUp>> {
    using storage = typename Updater::traits::storage;
    using memory_type = row_memory<Updater>;
    static constexpr bool owns_rows = false;
    static constexpr bool is_concurrent() { return require_concurrent<Updater, CatchUp>(); }
    static constexpr auto make_call = &concurrent_call_of<Updater, CatchUp>::make;
    row_updater<Updater, CatchUp> table;
    row_memory<Updater> memory;

    template <class Ids> given_ids ids(Ids& of) const { return ids_of<Updater>(of); }
    template <class Gradients> given_values gradients(Gradients& of) const { return gradients_of<Updater>(of); }
    template <class Ids, class Out, class Read>
    void read(row_place const& place, Ids& of, Out& out, Read const& read) const {
        read_rows<Updater, storage>(rows(), place, of, out, read);
    }
    template <class Ids, class Offsets, class Out>
    pooled_call pooled(row_place const& place, Ids& of, Offsets& offsets, Out& out, bag_options const& how) const {
        return pooled_rows_of<Updater>(rows(), place, of, offsets, out, how);
    }

    row_core const& rows() const { return table.core(); }
    row_core& rows() { return table.core(); }
    bool average_is_applied() const { return false; }
    // The memory is checked: `alone` can have changed it.
    template <class F> void placed(F const& f) const {
        bound_rows<Updater> const its(memory, rows());
        rows().check(its.place());
        f(its.place());
    }
    template <class F> decltype(auto) alone(F& f) { return std::forward<F>(f)(table, memory); }
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
    using rows_type = detail::striped_rows<Table>;
    static_assert(rows_type::is_concurrent());
    using shared_guard = detail::phase_fair_mutex::shared_guard;

public:
    /// The type of a value in memory.
    using storage = typename rows_type::storage;

    /// Takes ownership of the table. A hash of the row number maps each row to one of `stripes`
    /// stripes, 8 bytes each, rounded up to a power of two. By default there are as many as rows,
    /// but at least 2^12 and at most 2^18. Throws value_error unless they are in [1, 2^31].
    explicit striped(Table owned, std::optional<std::size_t> stripes = {})
        : table_{std::move(owned)}, turns_(stripes, rows().num_rows(), rows_type::make_call) {
        static_assert(rows_type::owns_rows, "gradstep: striped: a row_updater has no rows; expected "
                                            "gs::striped{rows, memory}");
    }
    /// The same for rows of your memory, with the steps that `rows` has taken so far. It takes
    /// ownership of the row_updater, not of the memory. Throws the errors of row_updater::memory.
    explicit striped(Table row_updater, typename rows_type::memory_type const& memory,
                     std::optional<std::size_t> stripes = {}) requires(!rows_type::owns_rows)
        : table_{std::move(row_updater), memory}, turns_(stripes, rows().num_rows(), rows_type::make_call) {
        table_.placed([](auto const&) {});
    }

    /// table::update, from any thread. It checks its arguments before it writes anything.
    template <class Ids, class Gradients>
    void update(Ids&& ids, Gradients&& gradient_rows, step_options const& options = {}) {
        shared_guard const entered(turns_.phase);
        detail::given_ids const which = table_.ids(ids);
        apply(which, table_.gradients(gradient_rows), which.size(), "ids", options);
    }
    /// table::update with pooled gradients, from any thread.
    template <class Ids, class Offsets, class Gradients>
    requires detail::is_no_option<Gradients>
    void update(Ids&& ids, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {},
                bag_options const& bags = {}) {
        shared_guard const entered(turns_.phase);
        detail::given_ids const which = table_.ids(ids), begins = table_.ids(offsets);
        auto const given = table_.gradients(bag_rows);
        apply(which, given, given.size / rows().width(), "bags", options, &begins, bags);
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
        table_.placed([&](detail::row_place const& place) {
            table_.read(place, ids, out, [&](auto which, auto* to) {
                this->rows().kernels().check_ids(which, this->rows().num_rows());
                typename detail::row_turns::scratch_lease lent(turns_, this->rows());
                turns_.read(this->rows(), place, *lent, which, table_.average_is_applied(),
                            reinterpret_cast<std::byte*>(to));
            });
        });
    }

    /// table::bags, from any thread: each row is read atomically.
    template <class Ids, class Offsets, class Out>
    void bags(Ids&& ids, Offsets&& offsets, Out&& out, bag_options const& bags = {}) const {
        detail::require_lasting<Out>();
        shared_guard const entered(turns_.phase);
        table_.placed([&](detail::row_place const& place) {
            detail::pooled_call const call = table_.pooled(place, ids, offsets, out, bags);
            typename detail::row_turns::scratch_lease lent(turns_, this->rows());
            turns_.pool(this->rows(), place, *lent, call, table_.average_is_applied(), [](auto...) {});
        });
    }

    /// Returns f(table), with exclusive access: for flush, changes of rows, checkpoints. Running
    /// calls finish first. New calls wait until f has returned or thrown, and go before the next f:
    /// each thread that calls in a loop gets one call before f. Callers of `alone` are served in
    /// order. With rows of your memory it returns f(rows, memory), the row_updater and the
    /// row_memory. To grow, or to move the memory, assign a new `rows.memory(...)` to `memory`.
    template <class F> decltype(auto) alone(F&& f) {
        detail::phase_fair_mutex::exclusive_guard const entered(turns_.phase);
        turns_.forget_calls();
        return table_.alone(f);
    }

    /// The number of rows, `num_rows()`; the elements of a row, `width()`; and the `clock()`.
    std::uint64_t num_rows() const {
        shared_guard const entered(turns_.phase);
        return rows().num_rows();
    }
    std::size_t width() const {
        shared_guard const entered(turns_.phase);
        return rows().width();
    }
    gradstep::clock clock() const {
        shared_guard const entered(turns_.phase);
        auto const lock = turns_.ordering();
        return rows().clock();
    }

private:
    detail::row_core& rows() { return table_.rows(); }
    detail::row_core const& rows() const { return table_.rows(); }
    // `offsets`: of the bags; null if each id has a gradient.
    void apply(detail::given_ids ids, detail::given_values const& gradients, std::size_t count, char const* what,
               step_options const& options, detail::given_ids const* offsets = nullptr, bag_options const& bags = {}) {
        if (table_.average_is_applied()) detail::refuse_applied("update");
        table_.placed([&](detail::row_place const& place) {
            rows().check_gradients(place, gradients, count, what, options);
            typename detail::row_turns::scratch_lease lent(turns_, rows());
            auto& work = *lent;
            detail::row_sources sources;
            if (offsets != nullptr)
                sources = work.grouping().bags(rows().bags_of(place, *offsets, bags, ids.size()), ids,
                                               rows().options.ignore_id, count);
            turns_.group(rows(), place, work, ids, sources, gradients, rows().num_rows());
            auto ordering = turns_.ordering();
            turns_.step(rows(), place, work, ordering, gradients, options, [](std::size_t) {});
            rows().zero(gradients, options);
        });
    }

    rows_type table_;
    detail::row_turns turns_;
};
template <class Table> striped(Table) -> striped<Table>;
template <class Updater, class CatchUp>
striped(table<Updater, CatchUp>, std::size_t) -> striped<table<Updater, CatchUp>>;
template <class Updater, class CatchUp>
striped(row_updater<Updater, CatchUp>, row_memory<Updater>) -> striped<row_updater<Updater, CatchUp>>;
template <class Updater, class CatchUp>
striped(row_updater<Updater, CatchUp>, row_memory<Updater>, std::size_t) -> striped<row_updater<Updater, CatchUp>>;
} // namespace gradstep::inline GRADSTEP_ISA
