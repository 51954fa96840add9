#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/backends/thread_count.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/members.hpp>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// A reference to the work of one call, as an executor gets it: `work(part)` does one part and does not throw. It is
/// valid until `run` returns.
class task {
public:
    template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, task>) task(F const& f)
        : object_(&f), call_([](void const* object, std::size_t part) { (*static_cast<F const*>(object))(part); }) {}

    /// Does one part.
    void operator()(std::size_t part) const { call_(object_, part); }

private:
    void const* object_;
    void (*call_)(void const*, std::size_t);
};

/// What runs the parts of a call: `concurrency()` parts at a time, and `run(parts, work)`, which calls work(0) to
/// work(parts - 1) once each, in any order, on any threads, and returns when all are done.
template <class E> concept executor = requires(E& e, std::size_t parts, task work) {
    { e.concurrency() } -> std::convertible_to<std::size_t>;
    e.run(parts, work);
};

namespace detail {

// Into how many parts a call of so many bytes of traffic is worth being split: none of less than 256 KiB, and below
// twice that, about 8 microseconds, one.
inline std::size_t parts_worth(std::size_t bytes, std::size_t concurrency) {
    constexpr std::size_t part = 256 * 1024;
    return std::max<std::size_t>(1, std::min(concurrency, bytes / part));
}

} // namespace detail

/// Runs everything on the caller's thread.
struct serial_executor {
    std::size_t concurrency() const { return 1; }
    void run(std::size_t parts, task work) const {
        for (std::size_t part = 0; part < parts; ++part) work(part);
    }
};

/// A pool of its own, for programs that have none: `threads` threads, the caller included. Idle threads spin for about
/// 20 microseconds after a call, then sleep. Calls from several threads are safe: while the pool is busy a further call
/// runs on its caller's thread alone.
class thread_pool {
public:
    /// A thread for each core.
    thread_pool() : thread_pool(std::max(1u, std::thread::hardware_concurrency())) {}
    /// Throws value_error for a number outside [1, 65535], executor_error if the system does not give so many.
    template <std::integral Count> explicit thread_pool(Count threads) {
        auto const count = static_cast<std::size_t>(detail::thread_count("thread_pool", threads, 1));
        try {
            for (std::size_t i = 1; i < count; ++i) workers_.emplace_back([this, i] { work_as(i); });
        } catch (std::exception const& cause) {
            std::string const given = detail::text(concurrency());
            stop();
            throw executor_error("thread_pool: the system gives " + given + " of " + detail::text(count) +
                                 " threads: " + cause.what());
        }
    }
    ~thread_pool() { stop(); }
    thread_pool(thread_pool const&) = delete;
    thread_pool& operator=(thread_pool const&) = delete;

    std::size_t concurrency() const { return workers_.size() + 1; }

    void run(std::size_t parts, task work) {
        if (workers_.empty() || parts < 2 || busy_.exchange(true, std::memory_order_acquire))
            return serial_executor{}.run(parts, work);
        parts_ = parts;
        work_ = &work;
        running_.store(workers_.size(), std::memory_order_relaxed);
        calls_.fetch_add(1);
        calls_.notify_all();
        run_share_of(0);
        await(running_, [](std::size_t running) { return running == 0; });
        busy_.store(false, std::memory_order_release);
    }

private:
    void stop() {
        stopping_ = true;
        calls_.fetch_add(1);
        calls_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }
    // Thread i of n runs the parts i, i + n, i + 2n, ...
    void run_share_of(std::size_t i) {
        for (std::size_t part = i; part < parts_; part += concurrency()) (*work_)(part);
    }
    void work_as(std::size_t i) {
        for (std::size_t seen = 0;;) {
            await(calls_, [&](std::size_t calls) { return calls != seen; });
            ++seen;
            if (stopping_) return;
            run_share_of(i);
            if (running_.fetch_sub(1) == 1) running_.notify_one();
        }
    }

    // Spins for about 20 us, which is longer than the gap between two steps of a busy caller, then sleeps: a thread that
    // spins on takes the core from one that has work.
    template <class Condition> static void await(std::atomic<std::size_t>& value, Condition const& met) {
        auto const until = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
        for (unsigned spins = 0;; ++spins) {
            std::size_t const now = value.load(std::memory_order_acquire);
            if (met(now)) return;
            pause();
            if (spins % 64 == 63 && std::chrono::steady_clock::now() > until)
                value.wait(now, std::memory_order_acquire);
        }
    }
    static void pause() {
#if defined(__SSE2__)
        _mm_pause();
#endif
    }

    std::vector<std::thread> workers_;
    std::atomic<bool> busy_ = false; // no mutex: a nested call would try a lock that its own thread holds
    std::size_t parts_ = 0;
    task const* work_ = nullptr;
    std::atomic<bool> stopping_ = false;
    alignas(64) std::atomic<std::size_t> calls_ = 0;
    alignas(64) std::atomic<std::size_t> running_ = 0;
};

/// Hands the parts to the host's own pool: `host(parts, work)` must call work(0) to work(parts - 1) once each and return
/// when all are done. If the host throws, its exception reaches the caller of the step, and if it returns with a part
/// left out or asked for twice, an executor_error does: then the elements of the parts that ran have had the step, once
/// and whole, and all others are as they were.
class callback_executor {
public:
    /// `concurrency` is the number of parts a call is split into. Throws value_error if it is 0.
    callback_executor(std::size_t concurrency, std::function<void(std::size_t parts, task work)> host)
        : concurrency_(concurrency), host_(std::move(host)) {
        if (concurrency == 0)
            throw value_error("callback_executor: concurrency = 0: must be " +
                              std::string(ranges::positive_count.text));
        if (!host_) throw value_error("callback_executor: the callback is empty: give a function of (parts, work)");
    }

    std::size_t concurrency() const { return concurrency_; }

    void run(std::size_t parts, task work) const {
        std::vector<std::atomic<bool>> begun(parts);
        std::atomic<std::size_t> calls = 0, done = 0;
        // A part that is asked for again, or that does not exist, is not run: it would apply the step twice.
        auto const once = [&](std::size_t part) {
            calls.fetch_add(1);
            if (part >= parts || begun[part].exchange(true)) return;
            work(part);
            done.fetch_add(1);
        };
        host_(parts, once);
        if (calls != parts || done != parts)
            throw executor_error("callback_executor: the host made " + detail::text(calls.load()) + " calls and ran " +
                                 detail::text(done.load()) + " of " + detail::text(parts) +
                                 " parts: must be each part once");
    }

private:
    std::size_t concurrency_;
    std::function<void(std::size_t, task)> host_;
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
