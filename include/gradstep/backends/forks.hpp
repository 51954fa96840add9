#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include <gradstep/core/instruction_set.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// Counts the forks between this process and the process that called forks() first. A child has no threads of its
// parent: an executor compares this number with the number at its construction to see that its threads are gone.
inline std::uint32_t forks() {
    static std::atomic<std::uint32_t> count = 0; // has no destructor, since a child can read it while it ends
    [[maybe_unused]] static int const registered =
        pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
    return count.load(std::memory_order_relaxed);
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
