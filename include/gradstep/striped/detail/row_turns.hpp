#pragma once
#include <gradstep/rows/detail/row_core.hpp>
#include <gradstep/striped/detail/turns.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Lets several threads update and read the rows of one table: exclusive access, the order of the
// steps, and the turns of each row. striped and striped keyed tables own one. Invariant: tickets of
// a row are drawn in the order of the steps, under one lock; a row is updated when its ticket's
// turn comes.
class row_turns {
public:
    // Makes a call of a table's kernels; null if several threads cannot update their rows.
    using call_maker = std::unique_ptr<concurrent_call> (*)(table_kernels const&);

    // Throws value_error for a number of stripes that is out of range.
    row_turns(std::optional<std::size_t> stripes, std::uint64_t num_rows, call_maker make);

    // What a call does with a row, and when.
    struct turn {
        std::uint64_t row;
        turns::ticket ticket;
    };
    // The scratch memory of one call, kept for the next call.
    class call_scratch {
    public:
        // Makes room for the turns and plans of so many rows. Does not keep their contents.
        void make_room(std::size_t rows);
        row_call& grouping() { return call_->grouping(); }

        std::vector<std::int32_t> ids; // of keys

    private:
        friend row_turns;
        std::unique_ptr<concurrent_call> call_;
        std::size_t plan_bytes_ = 0;
        std::vector<turn> turns_;
        std::vector<std::size_t> later_;   // the turns that had not come yet
        std::vector<std::size_t> indices_; // of the rows that are read
        std::vector<std::uint64_t> rows_;
        std::vector<std::max_align_t> plans_;
        turns::sleeper sleeper_;
        std::unique_ptr<call_scratch> next_; // the next free one
    };
    // Leases a call_scratch, a free one if there is one.
    class scratch_lease {
    public:
        scratch_lease(row_turns const& from, row_core const& rows);
        ~scratch_lease();
        scratch_lease(scratch_lease const&) = delete;
        scratch_lease& operator=(scratch_lease const&) = delete;
        call_scratch& operator*() { return *leased_; }

    private:
        row_turns const& from_;
        std::unique_ptr<call_scratch> leased_;
    };

    // Forgets the scratch memory of calls, whose steps belong to one table. Call it while no call
    // runs, before the table can be replaced.
    void forget_calls() noexcept { free_.reset(); }

    // Locks the order of the steps.
    plain_guard ordering() const { return plain_guard(order_); }

    // Groups the ids of a call in one share: the concurrent callers provide the parallelism.
    static void group(row_core const& rows, row_place const& place, call_scratch& work, given_ids ids,
                      row_sources const& sources, given_values const& gradients, std::uint64_t num_rows);
    // One step of the grouped rows. `ordering` is locked until the step has its number and nothing
    // more can throw; on_begin(0) is called just before it is unlocked.
    void step(row_core& rows, row_place const& place, call_scratch& work, plain_guard& ordering,
              given_values const& gradients, step_options const& options, task const& on_begin);
    // Copies rows to `out`, each atomically. For negative ids, `out` does not change.
    void read(row_core const& rows, row_place const& place, call_scratch& work, given_ids ids, bool as_they_are,
              std::byte* out) const;
    // Writes pooled rows, each read atomically. fill(key, to): the values of a key without a row.
    template <class Fill>
    void pool(row_core const& rows, row_place const& place, call_scratch& work, pooled_call const& of, bool as_they_are,
              Fill const& fill) const {
        std::size_t const bytes = rows.width() * rows.facts().storage_bytes, cache = std::size_t{64} << 10;
        bag_pool by(rows.kernels(), rows.width(), std::clamp<std::size_t>(cache / bytes, 1, 256));
        by.run(of, 0, of.count, [&](auto ids, std::uint64_t const* keys, auto, std::byte* room, void const** to) {
            if (ids.empty()) return;
            read(rows, place, work, ids, as_they_are, room);
            for (std::size_t k = 0; k < ids.size(); ++k) {
                to[k] = room + k * bytes;
                if (static_cast<std::int64_t>(ids[k]) < 0) fill(keys[k], room + k * bytes);
            }
        });
    }

    mutable phase_fair_mutex phase; // locked exclusively by `alone`

private:
    // Calls f(k, turn) for each of `count` turns when it has come, first for turns that have come
    // already, and fetch(k) some turns ahead. Tickets are drawn under one lock, so every wait is
    // for a call that began earlier. f must not throw.
    template <class Fetch, class F>
    void in_turn(row_core const& rows, call_scratch& work, std::size_t count, Fetch const& fetch, F const& f) const;

    call_maker make_call_;
    mutable turns turns_;       // drawn under order_
    mutable plain_mutex order_; // of the clock, the stamps and the history
    mutable plain_mutex free_lock_;
    mutable std::unique_ptr<call_scratch> free_;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/striped/detail/row_turns.ipp>
#endif
