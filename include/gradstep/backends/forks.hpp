#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include <gradstep/core/instruction_set.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// How often this process and those that it was forked from have forked since the first call. The threads that an executor had before
// a fork are not there in the child, where the number is another one than when the executor was made.
inline std::uint32_t forks() {
    static std::atomic<std::uint32_t> count = 0; // no destructor: a child may look at it while it ends
    [[maybe_unused]] static int const registered =
        pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
    return count.load(std::memory_order_relaxed);
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
