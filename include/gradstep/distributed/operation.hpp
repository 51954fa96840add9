#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gradstep/core/error.hpp>

// Exchanges that go on while a worker's caller computes, and the thread that moves them on.
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

// What goes on while the caller computes: it is moved on by whoever holds the mutex. What fails
// there is thrown by each test() from then on, whoever it was: nobody knows where it stands.
class operation {
public:
    virtual ~operation() = default;
    // Of what has begun last.
    virtual bool advance() = 0;
    virtual std::vector<int> waits_for() const = 0;

    bool test();
    std::vector<int> missing() const;
    // On a thread that nobody hears. Whether it goes on.
    bool advance_quietly();
    // Where f throws, nothing has begun.
    template <class F> void begin(F const& f) {
        std::lock_guard const lock(mutex);
        f();
        is_busy = true;
    }

protected:
    // Whether it has ended.
    bool go_on();
    mutable std::mutex mutex;
    std::exception_ptr failure;
    bool is_busy = false;

private:
    void advance_or_fail();
};

// What a call of a helper thread's function has come to.
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

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/operation.ipp>
#endif
