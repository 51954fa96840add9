#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/table.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// A table for several writers, as an asynchronous parameter server has them: `update`, `row` and `rows` may be called
/// from any number of threads at once.
///
///     gs::striped shared{gs::table{optimizer, num_rows, width, gs::exact{}}};
///     shared.update(ids, gradient_rows);                  // from any thread
///     shared.alone([](auto& table) { table.flush(); });   // waits for the calls under way, then runs by itself
///
/// What is guaranteed: every batch is a step with a number of its own, and every row has the batches that name it in the
/// order of these numbers, whole; so no update is lost, a row catches up once on each step that it misses, and the rows
/// are, bit for bit, those of a table that was given the batches in this order. A reader sees a row after all batches that
/// began before the read, and none that began later. What is not: in which order concurrent batches get their numbers,
/// nor that a reader sees all rows of a concurrent batch or none.
///
/// A call settles under one lock (some nanoseconds a row) which steps its rows missed, and draws a ticket from the stripe
/// of each row; a row is then updated when its ticket's turn has come, the others first. A call runs on its caller's
/// thread. With touch_only and exact, and backends of the host.
template <class Table> class striped {
    using updater_type = typename Table::updater_type;
    using backend_type = typename updater_type::backend_type;
    using engine_type = detail::host_rows<updater_type>;
    using shape_type = std::remove_cvref_t<decltype(std::declval<Table const&>().shape())>;
    using missed = typename decltype(std::declval<Table const&>().reader())::missed;
    using compute = typename updater_type::traits::compute;
    static_assert(Table::on_host, "gradstep: striped: the locks are the host's: give a table of a host backend");
    static_assert(!Table::plans_read_history,
                  "gradstep: striped: replay reads the history while other writers add to it: use gs::exact or "
                  "gs::touch_only");

public:
    using storage = typename Table::storage;

    /// Takes over the table. Rows are held apart by their number modulo `stripes` (16 bytes each). Throws value_error for 0.
    explicit striped(Table owned, std::size_t stripes = 1 << 16)
        : table_(std::move(owned)), stripes_(checked(stripes)) {}

    /// table::update, from any thread; what it refuses, it refuses before anything is written.
    template <class Ids, class Gradients>
    void update(Ids&& ids, Gradients&& gradient_rows, step_options const& options = {}) {
        std::shared_lock const beside_others(phase_);
        auto const id_span = shape_type::ids_of(ids);
        table_.shape().gradients(table_.memory(), gradient_rows, id_span.size(), "ids", options);
        apply(id_span, gradient_rows, options, [](auto&) -> std::uint32_t const* { return nullptr; });
    }
    /// table::update by pooled gradients, from any thread.
    template <class Ids, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(Ids&& ids, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {}) {
        std::shared_lock const beside_others(phase_);
        auto const id_span = shape_type::ids_of(ids);
        auto const offset_span = shape_type::ids_of(offsets);
        std::size_t const bags = detail::traits_of<Gradients>::size(bag_rows) / table_.width();
        table_.shape().gradients(table_.memory(), bag_rows, bags, "bags", options);
        apply(id_span, bag_rows, options,
              [&](engine_type& on) { return on.bags(backend(), offset_span, id_span.size(), bags); });
    }

    /// A caught-up copy of row `id`, from any thread.
    std::vector<storage> row(std::int64_t id) const {
        std::vector<storage> out(table_.width());
        row(id, out);
        return out;
    }
    template <class Out> void row(std::int64_t id, Out&& out) const {
        rows(std::span<std::int64_t const>(&id, 1), out);
    }
    /// Caught-up copies of several rows, each whole, into the caller's memory of ids.size() x width elements.
    template <class Ids, class Out> void rows(Ids&& ids, Out&& out) const {
        std::shared_lock const beside_others(phase_);
        auto const id_span = shape_type::ids_of(ids);
        auto const memory = const_cast<Table&>(table_).memory();
        auto const to = table_.shape().room(memory, id_span.size(), out);
        detail::check_ids(id_span, table_.num_rows(), std::nullopt);
        std::vector<turn> turns(id_span.size());
        std::vector<std::size_t> later;
        later.reserve(turns.size());
        auto const reader = [&] {
            std::scoped_lock const lock(order_);
            auto const catch_up = table_.reader();
            for (std::size_t k = 0; k < turns.size(); ++k) {
                std::uint64_t const id = row_of(id_span[k]);
                turns[k] = {id, draw(id), catch_up.rows.missed_by(catch_up.history, id)};
            }
            return catch_up;
        }();
        in_turn(reader.rows, turns, later, [&](std::size_t k, turn const& now) {
            reader.template read<pack>(now.row, now.plan, to.data() + k * table_.width());
        });
    }

    /// Waits until no other call is under way, then returns f(table) while new ones wait: for flush, grow, checkpoints.
    template <class F> decltype(auto) alone(F&& f) {
        std::unique_lock const without_others(phase_);
        return f(table_);
    }

    /// The shape, `num_rows()` rows of `width()` elements, and the `clock()`.
    std::uint64_t num_rows() const {
        std::shared_lock const beside_others(phase_);
        return table_.num_rows();
    }
    std::size_t width() const { return table_.width(); }
    gradstep::clock clock() const {
        std::scoped_lock const lock(order_);
        return table_.clock();
    }

private:
    using pack = typename backend_type::template pack<compute>;

    // The rows of a stripe are worked on in the order of their tickets.
    struct stripe {
        std::uint64_t drawn = 0; // guarded by order_
        std::atomic<std::uint64_t> served = 0;
    };
    // What a call does to a row, and when.
    struct turn {
        std::uint64_t row, ticket;
        missed plan;
    };
    // What one call works with; kept for the next one.
    struct workplace {
        engine_type engine;
        std::vector<turn> turns;
        std::vector<std::size_t> later;
        std::vector<compute, detail::line_allocator<compute>> staged;
    };
    // A workplace from those that are free, and back.
    class borrowed {
    public:
        explicit borrowed(striped& from) : from_(from) {
            std::scoped_lock const lock(from_.free_mutex_);
            if (from_.free_.empty()) return;
            place_ = std::move(from_.free_.back());
            from_.free_.pop_back();
        }
        ~borrowed() {
            std::scoped_lock const lock(from_.free_mutex_);
            try {
                from_.free_.push_back(std::move(place_));
            } catch (std::bad_alloc const&) {
            } // then the next call makes another
        }
        borrowed(borrowed const&) = delete;
        borrowed& operator=(borrowed const&) = delete;
        workplace& operator*() {
            if (!place_) place_ = std::make_unique<workplace>();
            return *place_;
        }

    private:
        striped& from_;
        std::unique_ptr<workplace> place_;
    };

    static std::size_t checked(std::size_t stripes) {
        if (stripes == 0)
            detail::fail<value_error>("striped: stripes = 0: must be " + std::string(ranges::positive_count.text));
        return stripes;
    }
    template <class Id> static std::uint64_t row_of(Id id) { return static_cast<std::uint64_t>(id); }
    stripe& stripe_of(std::uint64_t row) const { return stripes_[row % stripes_.size()]; }
    std::uint64_t draw(std::uint64_t row) const { return stripe_of(row).drawn++; }

    // f(k, turns[k]) for each of them when its turn comes, those whose turn it is already first. Tickets are drawn under
    // one lock, so whoever waits waits for calls that began before; f does not throw.
    template <class F>
    void in_turn(detail::rows_at<updater_type> const& rows, std::vector<turn> const& turns,
                 std::vector<std::size_t>& later, F const& f) const {
        auto const serve = [&](std::size_t k) {
            f(k, turns[k]);
            auto& served = stripe_of(turns[k].row).served;
            served.store(turns[k].ticket + 1, std::memory_order_release);
            served.notify_all();
        };
        backend().for_each_part(1, [&](std::size_t) {
            later.clear();
            for (std::size_t k = 0; k < turns.size(); ++k) {
                if (k + detail::rows_ahead < turns.size()) rows.prefetch(turns[k + detail::rows_ahead].row);
                if (stripe_of(turns[k].row).served.load(std::memory_order_acquire) == turns[k].ticket) serve(k);
                else later.push_back(k);
            }
            for (std::size_t const k : later) {
                auto& served = stripe_of(turns[k].row).served;
                for (auto now = served.load(std::memory_order_acquire); now != turns[k].ticket;
                     now = served.load(std::memory_order_acquire))
                    served.wait(now, std::memory_order_acquire);
                serve(k);
            }
        });
    }
    backend_type const& backend() const { return table_.optimizer().backend(); }

    template <class Id, class Gradients, class Sources>
    void apply(std::span<Id const> ids, Gradients& gradients, step_options const& options, Sources const& sources_of) {
        borrowed lent(*this);
        workplace& work = *lent;
        auto const given = detail::as_span<storage const, host_memory>(gradients);
        // One share, since the writers are the threads.
        auto const batch =
            work.engine
                .group(backend(), ids, sources_of(work.engine), table_.num_rows(), table_.options(), std::size_t{0})[0]
                .batch;

        // Under the lock, in this order: everything that may throw, the number of the step, what every row missed.
        std::unique_lock ordering(order_);
        auto const [first_due, last_due] = table_.rows_due();
        auto const due_count = static_cast<std::size_t>(last_due - first_due);
        work.turns.resize(due_count + batch.count);
        work.later.reserve(work.turns.size());
        work.staged.resize(table_.width());
        auto const step = table_.begin(batch, given.data(), options);
        turn* next = work.turns.data();
        for (std::uint64_t id = first_due; id < last_due; ++id) *next++ = {id, draw(id), step.due.plan(id)};
        auto const& update = step.of_batch;
        for (std::size_t r = 0; r < batch.count; ++r) {
            if (r + detail::rows_ahead < batch.count) update.prefetch_stamp(r + detail::rows_ahead);
            *next++ = {update.id(r), draw(update.id(r)), update.plan(r)};
        }
        ordering.unlock();

        in_turn(step.due.rows, work.turns, work.later, [&](std::size_t k, turn const& now) {
            if (k >= due_count) update.template run<pack>(k - due_count, now.plan, work.staged.data());
            else if (now.plan.any()) step.due.template apply<pack>(now.row, now.plan);
        });
        table_.shape().zero(backend(), gradients, options);
    }

    Table table_;
    mutable std::vector<stripe> stripes_;
    mutable std::shared_mutex phase_; // shared by all calls but `alone`
    mutable std::mutex order_;        // of the clock, the stamps and the history
    std::mutex free_mutex_;
    std::vector<std::unique_ptr<workplace>> free_;
};
template <class Updater, class CatchUp> striped(table<Updater, CatchUp>) -> striped<table<Updater, CatchUp>>;
template <class Updater, class CatchUp>
striped(table<Updater, CatchUp>, std::size_t) -> striped<table<Updater, CatchUp>>;

} // namespace GRADSTEP_ISA
} // namespace gradstep
