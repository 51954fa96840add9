#pragma once
#include <bit>
#include <cstddef>
#include <vector>

#include <gradstep/base/detail/hash.hpp>
#include <gradstep/striped/detail/locks.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The order in which calls access rows. A call draws a ticket for each of its rows, and works on a
// row after all earlier tickets for it have been served. A hash maps row numbers to shared stripes.
class turns {
public:
    // The stripe and the ticket number of a row. Numbers can wrap: a stripe never has 2^32 tickets
    // out at once, since each one uses memory of a call.
    struct ticket {
        std::uint32_t stripe, number;
    };
    // A call that waits for a turn. It must outlive the queue: the waker may access it after
    // waiting has returned.
    class sleeper {
        friend class turns;
        ticket waits_for_ = {};
        sleeper* next_ = nullptr;
        std::atomic<std::uint32_t> awake_ = 0;
    };

    // At least one stripe; rounded up to a power of two.
    explicit turns(std::size_t stripes)
        : stripes_(std::bit_ceil(stripes)), shift_(64 - std::countr_zero(stripes_.size())) {}

    // Draws a ticket. Not thread-safe.
    ticket draw(std::uint64_t row) {
        auto const s = stripe_of(row);
        return {s, stripes_[s].drawn++};
    }
    // Prefetches the counters that a ticket is drawn from and served to.
    GRADSTEP_INLINE void prefetch(std::uint64_t row) const { prefetch(ticket{stripe_of(row), 0}); }
    GRADSTEP_INLINE void prefetch([[maybe_unused]] ticket t) const {
#if defined(__GNUC__)
        __builtin_prefetch(&stripes_[t.stripe], 1);
#endif
    }

    bool has_come(ticket t) const { return stripes_[t.stripe].served.load(std::memory_order_acquire) == t.number; }
    // Starts the turn of the next ticket of the stripe. If its call sleeps, the next `wake` wakes
    // it.
    void serve(ticket t) { stripes_[t.stripe].served.store(t.number + 1, std::memory_order_release); }

    // Wakes the sleeping calls whose turn has come. Every thread that has served must call it
    // before it sleeps or returns.
    //
    // No wake-up is lost: there are two read-modify-writes of sleeping_, one by the serving thread
    // and one by the thread that goes to sleep. The second one sees everything before the first. So
    // either the serving thread finds the sleeper in the list, or the sleeper, which checks the
    // list after it has entered it, finds its ticket served.
    void wake() {
        if (sleeping_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
        plain_guard const lock(list_);
        wake_those_in_the_list();
    }
    void wait(ticket t, sleeper& me) {
        if (has_come(t)) return;
        me.waits_for_ = t;
        me.awake_.store(0, std::memory_order_relaxed);
        {
            plain_guard const lock(list_);
            me.next_ = first_;
            first_ = &me;
            sleeping_.fetch_add(1, std::memory_order_acq_rel);
            wake_those_in_the_list();
        }
        me.awake_.wait(0, std::memory_order_acquire);
    }

private:
    struct stripe {
        std::uint32_t drawn = 0;
        std::atomic<std::uint32_t> served = 0;
    };
    // Consecutive rows are in distant stripes, so that calls on them share no cache line. Calls on
    // ids chosen to share a stripe wait for each other, like calls on the same id.
    std::uint32_t stripe_of(std::uint64_t row) const {
        return shift_ == 64 ? 0 : static_cast<std::uint32_t>(fibonacci_hash(row) >> shift_);
    }
    void wake_those_in_the_list() {
        for (sleeper** at = &first_; *at != nullptr;) {
            sleeper& one = **at;
            if (has_come(one.waits_for_)) {
                *at = one.next_;
                sleeping_.fetch_sub(1, std::memory_order_relaxed);
                one.awake_.store(1, std::memory_order_release);
                one.awake_.notify_one();
            } else {
                at = &one.next_;
            }
        }
    }

    std::vector<stripe> stripes_;
    int shift_;
    alignas(64) std::atomic<std::uint32_t> sleeping_ = 0;
    plain_mutex list_;
    sleeper* first_ = nullptr; // of the list
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
