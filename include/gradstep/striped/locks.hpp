#pragma once
#include <atomic>
#include <cstdint>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// Locks of which threads that wait sleep. Of the standard's, <mutex> and <shared_mutex> would cost every include of the
// library more time than they are long, and a shared_mutex lets readers overtake a writer for ever.

// One thread at a time. Drepper, Futexes are tricky (2011), the second mutex.
class plain_lock {
public:
    void lock() {
        std::uint32_t free = 0;
        if (state_.compare_exchange_strong(free, held, std::memory_order_acquire, std::memory_order_relaxed)) return;
        while (state_.exchange(waited_for, std::memory_order_acquire) != 0)
            state_.wait(waited_for, std::memory_order_relaxed);
    }
    void unlock() {
        if (state_.exchange(0, std::memory_order_release) == waited_for) state_.notify_one();
    }

private:
    static constexpr std::uint32_t held = 1, waited_for = 2; // held, and somebody may sleep

    std::atomic<std::uint32_t> state_ = 0;
};

// Holds a lock until the end of its scope, or until it is released.
class holding {
public:
    explicit holding(plain_lock& lock) : lock_(&lock) { lock.lock(); }
    ~holding() { release(); }
    holding(holding const&) = delete;
    holding& operator=(holding const&) = delete;
    void release() {
        if (lock_ != nullptr) lock_->unlock();
        lock_ = nullptr;
    }

private:
    plain_lock* lock_;
};

// Calls run beside each other, or one runs alone; neither starves. Whoever wants to be alone closes the gate: calls under
// way finish, and those that come wait, until it has been alone. They then go before the next one who wants to, and so a
// call waits for one that is alone, and one that wants to be alone for the calls of at most one phase for each that asked
// before it. Threads that wait sleep.
//
// The phase-fair ticket lock of Brandenburg & Anderson, Spin-based reader-writer synchronization for multiprocessor
// real-time systems, Real-Time Systems 46 (2010), which spins.
class phase_lock {
public:
    // For as long as it lives, its thread runs beside others.
    class beside_others {
    public:
        explicit beside_others(phase_lock& of) : of_(of) { of_.enter(); }
        ~beside_others() { of_.leave(); }
        beside_others(beside_others const&) = delete;
        beside_others& operator=(beside_others const&) = delete;

    private:
        phase_lock& of_;
    };
    // For as long as it lives, its thread runs alone.
    class without_others {
    public:
        explicit without_others(phase_lock& of) : of_(of) { of_.close(); }
        ~without_others() { of_.open(); }
        without_others(without_others const&) = delete;
        without_others& operator=(without_others const&) = delete;

    private:
        phase_lock& of_;
    };

private:
    // Of `entered_` the low two bits are the gate, 0 where it is open, and else not what they were the last time; above
    // them, as in `left_`, calls are counted. The counts may wrap: they are compared for equality.
    static constexpr std::uint32_t call = 4, closed = 2, alternating = 1, gate = closed | alternating;

    // Every operation is sequentially consistent, for a reason in two places: one thread changes a word and then looks
    // whether another waits for it, while that one first says that it waits and then looks at the word. At least one of
    // them sees the other, and so no wake-up is lost.
    void enter() {
        std::uint32_t const before = entered_.fetch_add(call) & gate;
        if (before == 0) return;
        // If the gate is closed again when this thread wakes, then differently, and by one that waits for this call.
        for (auto now = entered_.load(); (now & gate) == before; now = entered_.load()) entered_.wait(now);
    }
    void leave() {
        left_.fetch_add(call);
        if ((entered_.load() & gate) != 0) left_.notify_all();
    }
    void close() {
        std::uint32_t const mine = asked_.fetch_add(1);
        for (auto now = been_.load(); now != mine; now = been_.load()) been_.wait(now);
        std::uint32_t const before = entered_.fetch_add(closed | (mine & alternating));
        for (auto now = left_.load(); now != before; now = left_.load()) left_.wait(now);
    }
    void open() {
        entered_.fetch_and(~gate);
        entered_.notify_all();
        been_.fetch_add(1);
        been_.notify_all();
    }

    alignas(64) std::atomic<std::uint32_t> entered_ = 0; // one line for all: a call takes it twice
    std::atomic<std::uint32_t> left_ = 0;
    std::atomic<std::uint32_t> asked_ = 0, been_ = 0; // tickets of those who want to be alone
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
