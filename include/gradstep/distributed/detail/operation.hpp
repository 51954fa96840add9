#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gradstep/base/error.hpp>

// Exchanges that continue while a worker's caller computes, and the thread that advances them.
namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// An operation that continues while the caller computes. Any thread that holds the mutex can
// advance it. After an error its state is undefined, and each test() throws the error again.
class operation {
public:
    virtual ~operation() = default;
    // Advances the operation that `begin` started last. Returns whether it is complete.
    virtual bool advance() = 0;
    virtual std::vector<int> waits_for() const = 0;

    bool test();
    std::vector<int> missing() const;
    // For the helper thread: stores an exception for test(). Returns whether the operation
    // continues.
    bool advance_quietly();
    // If f throws, the operation has not begun.
    template <class F> void begin(F const& f) {
        std::lock_guard const lock(mutex);
        f();
        is_busy = true;
    }

protected:
    // Returns whether it is complete.
    bool go_on();
    mutable std::mutex mutex;
    std::exception_ptr failure;
    bool is_busy = false;

private:
    void advance_or_fail();
};

// The result of one call of a helper thread's function.
enum class progress { none_left, awaited, made };

// A thread that calls advance() until nothing is left, after each wake().
class helper_thread {
public:
    explicit helper_thread(std::function<progress()> advance);
    ~helper_thread();
    void wake();

private:
    std::mutex mutex_;
    std::condition_variable woken_;
    bool is_awake_ = false;
    std::atomic<bool> has_ended_ = false;
    std::thread thread_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/operation.ipp>
#endif
