#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include <gradstep/base/instruction_set.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Counts the forks between this process and the process that called forks() first. A child has no
// threads of its parent: an executor compares this number with the number at its construction to
// see that its threads are gone.
inline std::uint32_t forks() {
    static std::atomic<std::uint32_t> count = 0; // has no destructor, since a child can read it while it ends
    [[maybe_unused]] static int const registered =
        pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
    return count.load(std::memory_order_relaxed);
}

// The one T of this process. A child of fork makes its own: another thread of its parent could have
// held a lock of the parent's. It has no destructor, since threads may outlive static objects.
template <class T> T& of_this_process() {
    struct made {
        std::uint32_t forks = detail::forks();
        T value = {};
    };
    static std::atomic<made*> last = nullptr;
    made* known = last.load(std::memory_order_acquire);
    while (known == nullptr || known->forks != forks()) {
        auto fresh = std::make_unique<made>();
        if (last.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel, std::memory_order_acquire))
            known = fresh.release();
    }
    return known->value;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
