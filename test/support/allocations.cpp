// Replaces operator new for the whole program, which counts allocations, and fails where a test wants it.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "support/allocations.hpp"

std::atomic<std::size_t> allocations = 0, allocations_until_failure = SIZE_MAX;

#if !defined(__SANITIZE_ADDRESS__)
namespace {

// Not inlined, or g++ takes malloc and delete, new and free for mismatched pairs.
[[gnu::noinline]] void* allocate(std::size_t n, std::size_t alignment) {
    ++allocations;
    if (allocations_until_failure != SIZE_MAX && allocations_until_failure-- == 0) throw std::bad_alloc();
    if (void* const p = std::aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void release(void* p) { std::free(p); }

} // namespace

void* operator new(std::size_t n) { return allocate(std::max<std::size_t>(n, 1), alignof(std::max_align_t)); }
void* operator new(std::size_t n, std::align_val_t alignment) {
    return allocate(std::max<std::size_t>(n, 1), static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
#endif
