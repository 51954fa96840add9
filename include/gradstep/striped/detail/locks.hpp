#pragma once
#include <gradstep/base/detail/plain_mutex.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// A phase-fair readers-writer lock: calls run concurrently, or one call runs alone; neither
// starves. A call that must run alone closes the gate. Running calls finish, and new calls wait
// until it has run. They then go before the next call that must run alone. So a shared call waits
// for one exclusive call, and an exclusive call waits for at most one phase of shared calls per
// exclusive call before it. Waiting threads sleep. (A std::shared_mutex lets readers overtake a
// writer for ever.)
//
// The phase-fair ticket lock of Brandenburg & Anderson, Spin-based reader-writer synchronization
// for multiprocessor real-time systems, Real-Time Systems 46 (2010), which spins.
class phase_fair_mutex {
public:
    // The shared guard: its thread runs concurrently with others while it exists.
    class shared_guard {
    public:
        explicit shared_guard(phase_fair_mutex& of) : of_(of) { of_.enter(); }
        ~shared_guard() { of_.leave(); }
        shared_guard(shared_guard const&) = delete;
        shared_guard& operator=(shared_guard const&) = delete;

    private:
        phase_fair_mutex& of_;
    };
    // The exclusive guard: its thread runs alone while it exists.
    class exclusive_guard {
    public:
        explicit exclusive_guard(phase_fair_mutex& of) : of_(of) { of_.close(); }
        ~exclusive_guard() { of_.open(); }
        exclusive_guard(exclusive_guard const&) = delete;
        exclusive_guard& operator=(exclusive_guard const&) = delete;

    private:
        phase_fair_mutex& of_;
    };

private:
    // The low two bits of `entered_` are the gate: 0 if it is open, otherwise different from the
    // previous time. The bits above, and `left_`, count calls. The counts can wrap: they are only
    // compared for equality.
    static constexpr std::uint32_t call = 4, closed = 2, alternating = 1, gate = closed | alternating;

    // Every operation is sequentially consistent. In two places one thread changes a word and then
    // checks whether another thread waits for it, and the other thread first announces that it
    // waits and then checks the word. At least one of them sees the other's change, so no wake-up
    // is lost.
    void enter() {
        std::uint32_t const before = entered_.fetch_add(call) & gate;
        if (before == 0) return;
        // If the gate is closed again when this thread wakes, its bits differ, and the closer waits
        // for this call.
        for (auto now = entered_.load(); (now & gate) == before; now = entered_.load()) entered_.wait(now);
    }
    void leave() {
        left_.fetch_add(call);
        if ((entered_.load() & gate) != 0) left_.notify_all();
    }
    void close() {
        std::uint32_t const mine = next_ticket_.fetch_add(1);
        for (auto now = now_serving_.load(); now != mine; now = now_serving_.load()) now_serving_.wait(now);
        std::uint32_t const before = entered_.fetch_add(closed | (mine & alternating));
        for (auto now = left_.load(); now != before; now = left_.load()) left_.wait(now);
    }
    void open() {
        entered_.fetch_and(~gate);
        entered_.notify_all();
        now_serving_.fetch_add(1);
        now_serving_.notify_all();
    }

    alignas(64) std::atomic<std::uint32_t> entered_ = 0; // one cache line for all: a call takes it twice
    std::atomic<std::uint32_t> left_ = 0;
    std::atomic<std::uint32_t> next_ticket_ = 0, now_serving_ = 0; // writer tickets: next, now serving
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
