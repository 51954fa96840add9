#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
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
/// What is guaranteed: no update is lost; an update of a row is whole, since a row is locked while it is updated or read
/// (the rows of a batch are not locked together); every batch is a step with a number of its own; a row catches up once
/// on each step that it misses. What is not: the order of two concurrent batches on a row, and with it the bits; that a
/// reader sees all rows of a concurrent batch or none. With one writer the bits are those of the table.
///
/// Locks: one for the clock, the stamps and the history, held for some nanoseconds a row, and `stripes` for the rows, held
/// while a row is updated; a call holds one at a time. With touch_only and exact, and backends of the host.
template <class Table> class striped {
    using core_type = typename Table::core;
    using updater_type = typename core_type::updater_type;
    using backend_type = typename updater_type::backend_type;
    using engine_type = typename core_type::engine;
    using missed = typename core_type::view_type::missed;
    using compute = typename updater_type::traits::compute;
    static_assert(Table::on_host, "gradstep: striped: the locks are the host's: give a table of a host backend");
    static_assert(!core_type::reads_history_later,
                  "gradstep: striped: replay reads the history while other writers add to it: use gs::exact or "
                  "gs::touch_only");

public:
    using storage = typename Table::storage;

    /// Takes over the table. Throws value_error for 0 stripes.
    explicit striped(Table owned, std::size_t stripes = 1024) : table_(std::move(owned)), stripes_(checked(stripes)) {}

    /// table::update, from any thread; what it refuses, it refuses before anything is written.
    template <class Ids, class Gradients>
    void update(Ids&& ids, Gradients&& gradient_rows, step_options const& options = {}) {
        std::shared_lock const beside_others(phase_);
        auto const id_span = core_type::ids_of(ids);
        core().require_gradients(table_.memory(), gradient_rows, id_span.size(), "ids", options);
        apply(id_span, gradient_rows, options, [](auto&) -> std::uint32_t const* { return nullptr; });
    }
    /// table::update by pooled gradients, from any thread.
    template <class Ids, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(Ids&& ids, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {}) {
        std::shared_lock const beside_others(phase_);
        auto const id_span = core_type::ids_of(ids);
        auto const offset_span = core_type::ids_of(offsets);
        std::size_t const bags = detail::traits_of<Gradients>::size(bag_rows) / table_.width();
        core().require_gradients(table_.memory(), bag_rows, bags, "bags", options);
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
        auto const id_span = core_type::ids_of(ids);
        auto const to = core().require_room(id_span, out);
        auto const memory = const_cast<Table&>(table_).memory();
        std::vector<missed> plans(id_span.size());
        auto const reader = [&] {
            std::scoped_lock const lock(order_);
            auto const catch_up = core().catch_up_to(memory, core().clock().step);
            for (std::size_t k = 0; k < plans.size(); ++k)
                plans[k] = catch_up.rows.missed_by(catch_up.history, row_of(id_span[k]));
            return catch_up;
        }();
        backend().for_each_part(1, [&](std::size_t) {
            for (std::size_t k = 0; k < plans.size(); ++k) {
                std::scoped_lock const lock(stripe(row_of(id_span[k])));
                reader.template read<pack>(row_of(id_span[k]), plans[k], to.data() + k * table_.width());
            }
        });
    }

    /// Waits until no other call is under way, then returns f(table) while new ones wait: for flush, grow, checkpoints.
    template <class F> decltype(auto) alone(F&& f) {
        std::unique_lock const without_others(phase_);
        return f(table_);
    }

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

    // A lock on a cache line of its own.
    struct alignas(64) stripe_lock {
        std::mutex mutex;
    };

    // What one call works with; kept for the next one.
    struct workplace {
        engine_type engine;
        std::vector<missed> plans, due_plans;
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
            throw value_error("striped: stripes = 0: must be " + std::string(ranges::positive_count.text));
        return stripes;
    }
    template <class Id> static std::uint64_t row_of(Id id) { return static_cast<std::uint64_t>(id); }
    std::mutex& stripe(std::uint64_t row) const { return stripes_[row % stripes_.size()].mutex; }
    core_type& core() { return table_.core_; }
    core_type const& core() const { return table_.core_; }
    backend_type const& backend() const { return table_.optimizer().backend(); }

    template <class Id, class Gradients, class Sources>
    void apply(std::span<Id const> ids, Gradients& gradients, step_options const& options, Sources const& sources_of) {
        borrowed lent(*this);
        workplace& work = *lent;
        auto const memory = table_.memory();
        auto const given = detail::as_span<storage const, host_memory>(gradients);
        auto const shares = work.engine.group(backend(), ids, sources_of(work.engine), table_.num_rows(),
                                              table_.options(), core().row_bytes());
        std::size_t rows = 0;
        for (auto const& share : shares) rows += share.last - share.first;
        work.plans.resize(rows);

        // What every row missed is settled together with the number of the step, so that no step is missed twice.
        std::unique_lock ordering(order_);
        auto const due = core().rows_due();
        work.due_plans.resize(due.second - due.first);
        auto const step = core().updater_.next_step(options);
        auto const update_of = [&](auto const& batch) { return core().update_of(memory, batch, given.data(), step); };
        auto const catch_up = core().catch_up_to(memory, step.number() - 1);
        for (std::uint64_t id = due.first; id < due.second; ++id) {
            work.due_plans[id - due.first] = catch_up.rows.missed_by(catch_up.history, id);
            catch_up.rows.stamps[id] = catch_up.now;
        }
        core().lap_to(due.second, step.number());
        auto* plan = work.plans.data();
        for (auto const& share : shares) {
            auto const update = update_of(share.batch);
            for (std::size_t r = share.first; r < share.last; ++r) *plan++ = update.plan(r);
        }
        core().record(step);
        ordering.unlock();

        backend().for_each_part(1, [&](std::size_t) {
            for (std::uint64_t id = due.first; id < due.second; ++id) {
                if (!work.due_plans[id - due.first].any()) continue;
                std::scoped_lock const lock(stripe(id));
                catch_up.template apply<pack>(id, work.due_plans[id - due.first]);
            }
        });
        work.engine.update_shares(backend(), shares, table_.width(), [&](auto const& share, compute* staged) {
            auto const update = update_of(share.batch);
            missed const* of_share = work.plans.data();
            for (auto const* before = shares.data(); before != &share; ++before)
                of_share += before->last - before->first;
            for (std::size_t r = share.first; r < share.last; ++r) {
                if (r + ahead < share.last) update.prefetch(r + ahead);
                std::scoped_lock const lock(stripe(update.id(r)));
                update.template run<pack>(r, of_share[r - share.first], staged);
            }
        });
        if constexpr (!std::is_const_v<detail::element_type<Gradients>>)
            if (options.zero_gradient) engine_type::zero(backend(), detail::as_span<storage, host_memory>(gradients));
    }

    static constexpr std::size_t ahead = 8;

    Table table_;
    mutable std::vector<stripe_lock> stripes_;
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
