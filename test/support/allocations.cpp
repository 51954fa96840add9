// Replaces operator new for the whole program, which counts allocations, and fails where a test
// wants it, as mmap does. new (std::nothrow) and new[] call it.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "support/allocations.hpp"

std::atomic<std::size_t> allocations = 0, bytes_allocated = 0, allocations_until_failure = SIZE_MAX;
std::atomic<std::ptrdiff_t> allocations_held = 0;
std::atomic<bool> allocations_keep_failing = false;

#if defined(COUNTS_ALLOCATIONS)
namespace {

bool fails() {
    std::size_t left = allocations_until_failure;
    while (left != SIZE_MAX && !(left == 0 && allocations_keep_failing) &&
           !allocations_until_failure.compare_exchange_weak(left, left - 1)) {
    }
    return left == 0;
}

// Not inlined, or g++ takes malloc and delete, new and free for mismatched pairs.
[[gnu::noinline]] void* allocate(std::size_t n, std::size_t alignment) {
    ++allocations;
    bytes_allocated += n;
    if (fails()) throw std::bad_alloc();
    if (void* const p = std::aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment)) {
        ++allocations_held;
        return p;
    }
    throw std::bad_alloc();
}
[[gnu::noinline]] void release(void* p) {
    if (p != nullptr) --allocations_held;
    std::free(p);
}

} // namespace

void* operator new(std::size_t n) { return allocate(std::max<std::size_t>(n, 1), alignof(std::max_align_t)); }
void* operator new(std::size_t n, std::align_val_t alignment) {
    return allocate(std::max<std::size_t>(n, 1), static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }

// As the library calls it: large memory of tables is mapped. The thread sanitizer calls it before
// it can watch a function.
#if defined(__linux__) && !defined(UNDER_THREAD_SANITIZER)
extern "C" void* mmap(void* at, std::size_t n, int protection, int flags, int file, off_t offset) noexcept {
    if (fails()) return MAP_FAILED;
    return reinterpret_cast<void*>(syscall(SYS_mmap, at, n, protection, flags, file, offset)); // NOLINT
}
#endif
#endif
