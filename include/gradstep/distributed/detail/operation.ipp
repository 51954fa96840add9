#pragma once
#include <gradstep/distributed/communicator.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE bool operation::test() {
    std::lock_guard const lock(mutex);
    return go_on();
}

GRADSTEP_DEFINE std::vector<int> operation::missing() const {
    std::lock_guard const lock(mutex);
    return waits_for();
}

GRADSTEP_DEFINE bool operation::advance_quietly() {
    std::unique_lock const lock(mutex, std::try_to_lock);
    if (!lock) return true;
    advance_or_fail();
    return is_busy && !failure;
}

GRADSTEP_DEFINE bool operation::go_on() {
    advance_or_fail();
    if (failure) std::rethrow_exception(failure);
    return !is_busy;
}

GRADSTEP_DEFINE void operation::advance_or_fail() {
    if (is_busy && !failure) failure = gradstep::detail::exception_of([&] { is_busy = !advance(); });
}

GRADSTEP_DEFINE helper_thread::helper_thread(std::function<progress()> advance) {
    thread_ = std::thread([this, advance = std::move(advance)] {
        for (std::unique_lock lock(mutex_);;) {
            // Not wait(), a function that GCC 11's library lacks: the wheel runs there, too.
            while (!is_awake_ && !has_ended_) woken_.wait_for(lock, std::chrono::hours(1));
            if (has_ended_) return;
            is_awake_ = false;
            lock.unlock();
            idle_time idle;
            while (!has_ended_) {
                progress const now = advance();
                if (now == progress::none_left) break;
                if (now == progress::awaited) idle.pass();
            }
            lock.lock();
        }
    });
}

GRADSTEP_DEFINE helper_thread::~helper_thread() {
    {
        std::lock_guard const lock(mutex_);
        has_ended_ = true;
    }
    woken_.notify_one();
    thread_.join();
}

GRADSTEP_DEFINE void helper_thread::wake() {
    {
        std::lock_guard const lock(mutex_);
        is_awake_ = true;
    }
    woken_.notify_one();
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
