#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/striped/locks.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// The order in which calls come to rows: a call draws a ticket for each of its rows, and works on a row when the tickets
// drawn for it before have been served. Rows share stripes, by a hash of their number.
class turns {
public:
    // For a row: its stripe, and the ticket. Numbers may wrap: no stripe has 2^32 of them out at once, for each of which a
    // call holds some memory.
    struct ticket {
        std::uint32_t stripe, number;
    };
    // A call that waits for a turn; it lives as long as the turns, since who wakes it may touch it a little later.
    class sleeper {
        friend class turns;
        ticket waits_for_ = {};
        sleeper* next_ = nullptr;
        std::atomic<std::uint32_t> awake_ = 0;
    };

    // At least one stripe; they are rounded up to a power of two.
    explicit turns(std::size_t stripes)
        : stripes_(std::bit_ceil(stripes)), shift_(64 - std::countr_zero(stripes_.size())) {}

    // By one thread at a time.
    ticket draw(std::uint64_t row) {
        auto const s = stripe_of(row);
        return {s, stripes_[s].drawn++};
    }
    // Begins to fetch what a ticket is drawn from and served to.
    GRADSTEP_INLINE void prefetch(std::uint64_t row) const { prefetch(ticket{stripe_of(row), 0}); }
    GRADSTEP_INLINE void prefetch([[maybe_unused]] ticket t) const {
#if defined(__GNUC__)
        __builtin_prefetch(&stripes_[t.stripe], 1);
#endif
    }

    bool has_come(ticket t) const { return stripes_[t.stripe].served.load(std::memory_order_acquire) == t.number; }
    // The turn of the next one on the stripe has come. If that one sleeps, it learns so from the next `wake`.
    void serve(ticket t) { stripes_[t.stripe].served.store(t.number + 1, std::memory_order_release); }

    // Wakes those that sleep and whose turn has come. Whoever has served calls it before it sleeps or returns.
    //
    // No wake-up is lost: of two read-modify-writes of sleeping_, one by who served and one by who goes to sleep, the
    // second sees what happened before the first. So either who served finds the sleeper in the list, or the sleeper, which
    // looks through the list itself once it stands there, finds its ticket served.
    void wake() {
        if (sleeping_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
        holding const lock(list_);
        wake_those_in_the_list();
    }
    void wait(ticket t, sleeper& me) {
        if (has_come(t)) return;
        me.waits_for_ = t;
        me.awake_.store(0, std::memory_order_relaxed);
        {
            holding const lock(list_);
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
    // Consecutive rows are apart, so that calls on them share no line of the cache. Calls on ids that were chosen to share a
    // stripe wait for each other, as calls on one id do.
    std::uint32_t stripe_of(std::uint64_t row) const {
        return shift_ == 64 ? 0 : static_cast<std::uint32_t>(row * 0x9e3779b97f4a7c15u >> shift_);
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
    plain_lock list_;
    sleeper* first_ = nullptr; // of the list
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
