#pragma once
#include <atomic>
#include <cstdint>

#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// A mutex, whose waiting threads sleep. Drepper, Futexes are tricky (2011), the second mutex.
// <mutex> would add more compile time to every include of the library than this file.
class plain_mutex {
public:
    void lock() {
        std::uint32_t free = 0;
        if (state_.compare_exchange_strong(free, locked, std::memory_order_acquire, std::memory_order_relaxed)) return;
        while (state_.exchange(waited_for, std::memory_order_acquire) != 0)
            state_.wait(waited_for, std::memory_order_relaxed);
    }
    void unlock() {
        if (state_.exchange(0, std::memory_order_release) == waited_for) state_.notify_one();
    }

private:
    static constexpr std::uint32_t locked = 1, waited_for = 2; // locked, waiters may exist

    std::atomic<std::uint32_t> state_ = 0;
};

// Locks until the end of its scope, or until release().
class plain_guard {
public:
    explicit plain_guard(plain_mutex& lock) : lock_(&lock) { lock.lock(); }
    ~plain_guard() { release(); }
    plain_guard(plain_guard const&) = delete;
    plain_guard& operator=(plain_guard const&) = delete;
    void release() {
        if (lock_ != nullptr) lock_->unlock();
        lock_ = nullptr;
    }

private:
    plain_mutex* lock_;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
