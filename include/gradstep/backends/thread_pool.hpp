#pragma once
// Uses POSIX threads: <thread> and <chrono> would add a fifth to the compile time of gradstep.hpp.
#include <sched.h>
#include <time.h>

#include <gradstep/backends/available_cores.hpp>
#include <gradstep/backends/detail/forks.hpp>
#include <gradstep/backends/detail/thread_count.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/memory/executor.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// A thread pool, for programs that have none: `threads` threads, including the caller's. Each
/// thread owns a contiguous share of the parts, the same in every call, so that its core finds the
/// data in its cache. A thread that has finished its share takes parts from other shares. So a call
/// does not wait for a thread that has no core, unless the thread loses its core inside a part.
///
/// Idle threads spin for about 20 microseconds after a call and then sleep. While they spin, they
/// offer their core to other threads. A call wakes them if it moves 4 MiB or more, alone or
/// together with the calls just before it, or if its size is unknown.
///
/// You can call `run` from several threads: while the pool is busy, a further call runs on its
/// caller's thread alone. If a part throws, the caller gets the first exception after all running
/// parts have ended. It is unspecified which other parts have run.
///
/// After a fork, the child process has the pool without its threads: every call runs on the
/// caller's thread. A pool that the child creates has threads again.
class thread_pool {
public:
    /// The number of parts per thread into which a large call is split. The call ends with its last
    /// part, and small parts end soon even if their thread loses its core for a while.
    static constexpr std::size_t parts_per_thread = 8;

    /// Starts one thread for each core that the process may use: `available_cores()`, at most
    /// 65535.
    thread_pool() : thread_pool(std::min(available_cores(), std::size_t{65535})) {}
    /// Starts threads so that the pool has `threads` threads, including the caller's. Throws
    /// value_error outside [1, 65535], and executor_error if the system cannot start the threads.
    template <std::integral Count>
    explicit thread_pool(Count threads)
        : thread_pool(checked_count{static_cast<std::size_t>(detail::thread_count("thread_pool", threads, 1))}) {}
    ~thread_pool();
    thread_pool(thread_pool const&) = delete;
    thread_pool& operator=(thread_pool const&) = delete;

    std::size_t concurrency() const { return has_forked() ? 1 : threads_; }

    /// Runs the parts of a call (executor). Throws value_error for 2^32 parts or more.
    void run(std::size_t parts, task work);

private:
    struct checked_count {
        std::size_t threads;
    };
    explicit thread_pool(checked_count of);

    enum : int { awake, asleep, stopped };

    // Nanoseconds. An idle thread spins for longer than the gap between two steps of a busy caller.
    // Without a limit it would take the core from a thread that has work. It offers its core to
    // others regularly, before the system takes the core away inside a part.
    static constexpr std::int64_t spin = 20'000, between_offers = 50'000;
    // Bytes that a core moves in the time that a sleeping thread needs to wake.
    static constexpr std::size_t worth_waking = std::size_t{4} << 20;
    static constexpr std::size_t most_parts = UINT32_MAX;

    // A thread of the pool. Worker 0 stands for the caller's thread.
    struct alignas(64) worker {
        // Parts [low half, high half) of its share that are not claimed yet. A thread claims a part
        // by compare-and-swap. The call does not end before every claimed part has run, so only a
        // thread that has claimed a part can read `work_`. A late thread finds no part, or a part
        // of a later call; both are valid.
        std::atomic<std::uint64_t> unclaimed = 0;
        std::atomic<int> state = awake;
        std::int64_t last_offer = 0;
        thread_pool* pool = nullptr;
        pthread_t thread = {};
    };

    static std::uint64_t range(std::uint64_t first, std::uint64_t last) { return first | last << 32; }
    static std::uint64_t first_of(std::uint64_t range) { return range & UINT32_MAX; }
    static std::uint64_t last_of(std::uint64_t range) { return range >> 32; }

    static bool has_parts(worker const& of) {
        std::uint64_t const parts = of.unclaimed.load(std::memory_order_relaxed);
        return first_of(parts) != last_of(parts);
    }

    // A thread claims its own parts from the front and other threads' parts from the back.
    template <bool own> static bool claim(worker& of, std::size_t& part) {
        std::uint64_t parts = of.unclaimed.load(std::memory_order_acquire), others;
        do {
            std::uint64_t const first = first_of(parts), last = last_of(parts);
            if (first == last) return false;
            part = static_cast<std::size_t>(own ? first : last - 1);
            others = own ? range(first + 1, last) : range(first, last - 1);
        } while (
            !of.unclaimed.compare_exchange_weak(parts, others, std::memory_order_acq_rel, std::memory_order_acquire));
        return true;
    }

    void run_unclaimed(worker& self);

    void run_part(std::size_t part);

    // Counts finished parts. Wakes the caller, which may sleep, when the last part is done.
    void finish(worker const& self, std::uint32_t parts);

    void await_others();

    // Returns whether a thread with a share was asleep. Wakes these threads if this call moves
    // enough bytes, counted together with the calls before it whose gaps were shorter than the time
    // a thread spins.
    bool wake(std::size_t shares, std::size_t bytes);

    static void* work_as(void* self);

    // Waits until its own share has parts. Returns false when the pool is stopped.
    bool await_parts(worker& self);

    // Either this follows the call's change of `calls_` and sees its parts, or it comes before the
    // change, and the call sees that the thread sleeps.
    void sleep(worker& self);

    // Stops threads 1 to end - 1.
    void stop(std::size_t end);

    // Whether this is a child of the process that made the pool: then it has no threads.
    bool has_forked() const { return detail::forks() != forks_; }
    bool is_caller(worker const& self) const { return &self == workers_.get(); }

    bool offers_core(worker const& self) const { return !is_caller(self) && now() - self.last_offer > between_offers; }
    static void offer_core(worker& self);
    static std::int64_t now() {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    }
    static void pause() {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }

    std::uint32_t forks_ = detail::forks();
    std::size_t threads_;
    std::unique_ptr<worker[]> workers_;
    std::atomic<bool> busy_ = false; // not a mutex: a nested call would try to lock what its own thread holds
    // The current call:
    task const* work_ = nullptr;
    std::atomic<std::size_t> shares_ = 0;
    std::atomic<bool> failed_ = false;
    std::exception_ptr failure_;
    // All calls until now:
    std::atomic<std::uint32_t> calls_ = 0; // number of calls; sleep() uses it to notice one that has just begun
    std::int64_t last_call_ = 0;
    std::size_t moved_ = 0;
    alignas(64) std::atomic<std::uint32_t> unfinished_ = 0;
};
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/backends/thread_pool.ipp>
#endif
