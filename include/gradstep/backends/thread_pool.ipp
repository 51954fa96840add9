#pragma once
#include <cstring>

#include <unistd.h>

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE thread_pool::~thread_pool() {
    if (!has_forked()) stop(threads_);
}

GRADSTEP_DEFINE void thread_pool::run(std::size_t parts, task work) {
    if (parts > most_parts)
        detail::fail<value_error>({"thread_pool: parts"}, {parts, " is out of range"}, {"[0, ", most_parts, "]"});
    if (threads_ < 2 || parts < 2 || has_forked() || busy_.exchange(true, std::memory_order_acquire))
        return serial_executor{}.run(parts, work);
    work_ = &work;
    std::size_t const shares = std::min(parts, threads_);
    shares_.store(shares, std::memory_order_relaxed);
    unfinished_.store(static_cast<std::uint32_t>(parts), std::memory_order_relaxed);
    for (std::size_t i = shares; i-- > 0;) { // from here on, threads can claim parts
        std::uint64_t const all = parts;
        workers_[i].unclaimed.store(range(all * i / shares, all * (i + 1) / shares), std::memory_order_release);
    }
    calls_.fetch_add(1, std::memory_order_acq_rel);
    bool const sleepers = wake(shares, work.bytes());
    run_unclaimed(workers_[0]);
    await_others();
    if (sleepers) last_call_ = now();
    auto const failure = std::exchange(failure_, nullptr);
    failed_.store(false, std::memory_order_relaxed);
    busy_.store(false, std::memory_order_release);
    if (failure) std::rethrow_exception(failure);
}

GRADSTEP_DEFINE thread_pool::thread_pool(checked_count of)
    : threads_(of.threads), workers_(std::make_unique<worker[]>(threads_)) {
    for (std::size_t i = 1; i < threads_; ++i) {
        workers_[i].pool = this;
        if (int const refused = pthread_create(&workers_[i].thread, nullptr, work_as, &workers_[i])) {
            stop(i);
            detail::fail<executor_error>(
                {"thread_pool"}, {"the system gives ", i, " of ", threads_, " threads: ", std::strerror(refused)});
        }
    }
}

GRADSTEP_DEFINE void thread_pool::run_unclaimed(worker& self) {
    std::uint32_t done = 0;
    for (std::size_t part; claim<true>(self, part);) {
        run_part(part);
        ++done;
        if (offers_core(self)) finish(self, std::exchange(done, 0)), offer_core(self);
    }
    finish(self, done);
    auto const number = static_cast<std::size_t>(&self - workers_.get());
    std::size_t const shares = shares_.load(std::memory_order_relaxed);
    for (std::size_t k = 1; k <= shares; ++k)
        for (std::size_t part; claim<false>(workers_[(number + k) % shares], part);) {
            run_part(part);
            finish(self, 1);
            if (offers_core(self)) offer_core(self);
        }
}

GRADSTEP_DEFINE void thread_pool::run_part(std::size_t part) {
    auto const failure = detail::exception_of([&] { (*work_)(part); });
    if (failure && !failed_.exchange(true)) failure_ = failure;
}

GRADSTEP_DEFINE void thread_pool::finish(worker const& self, std::uint32_t parts) {
    if (parts != 0 && unfinished_.fetch_sub(parts, std::memory_order_acq_rel) == parts && !is_caller(self))
        unfinished_.notify_one();
}

GRADSTEP_DEFINE void thread_pool::await_others() {
    std::int64_t until = 0;
    for (unsigned spins = 1;; ++spins) {
        std::uint32_t const unfinished = unfinished_.load(std::memory_order_acquire);
        if (unfinished == 0) return;
        pause();
        if (spins % 64 != 0) continue;
        if (until == 0) until = now() + spin;
        else if (now() > until) unfinished_.wait(unfinished, std::memory_order_acquire);
    }
}

GRADSTEP_DEFINE bool thread_pool::wake(std::size_t shares, std::size_t bytes) {
    bool sleeps = false;
    for (std::size_t i = 1; i < shares; ++i) sleeps |= workers_[i].state.load(std::memory_order_relaxed) == asleep;
    if (!sleeps) return false;
    if (now() - last_call_ > spin) moved_ = 0;
    moved_ = std::min(worth_waking, moved_ + std::min(worth_waking, bytes));
    if (moved_ < worth_waking) return true;
    moved_ = 0;
    for (std::size_t i = 1; i < shares; ++i) {
        int expected = asleep;
        if (workers_[i].state.compare_exchange_strong(expected, awake)) workers_[i].state.notify_one();
    }
    return true;
}

GRADSTEP_DEFINE void* thread_pool::work_as(void* self) {
    auto& worker = *static_cast<thread_pool::worker*>(self);
    while (worker.pool->await_parts(worker)) worker.pool->run_unclaimed(worker);
    return nullptr;
}

GRADSTEP_DEFINE bool thread_pool::await_parts(worker& self) {
    std::int64_t until = now() + spin;
    for (unsigned spins = 1;; ++spins) {
        if (has_parts(self)) return true;
        pause();
        if (spins % 64 != 0) continue;
        if (now() < until) {
            offer_core(self);
        } else {
            sleep(self);
            until = now() + spin;
        }
        if (self.state.load() == stopped) return false;
    }
}

GRADSTEP_DEFINE void thread_pool::sleep(worker& self) {
    int expected = awake;
    if (!self.state.compare_exchange_strong(expected, asleep)) return;
    calls_.fetch_add(0, std::memory_order_acq_rel);
    if (!has_parts(self)) return self.state.wait(asleep);
    expected = asleep;
    self.state.compare_exchange_strong(expected, awake);
}

GRADSTEP_DEFINE void thread_pool::stop(std::size_t end) {
    for (std::size_t i = 1; i < end; ++i) {
        workers_[i].state.store(stopped);
        workers_[i].state.notify_one();
    }
    for (std::size_t i = 1; i < end; ++i) pthread_join(workers_[i].thread, nullptr);
}

GRADSTEP_DEFINE void thread_pool::offer_core(worker& self) {
    sched_yield();
    self.last_offer = now();
}
} // namespace gradstep::inline GRADSTEP_ABI
