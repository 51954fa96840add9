#pragma once
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include <gradstep/base/error.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace gradstep::detail::inline GRADSTEP_ISA {
inline constexpr std::align_val_t cache_line{64};

#if defined(__linux__)
inline constexpr std::size_t huge_page = std::size_t{1} << 21;

constexpr bool has_own_mapping(std::size_t bytes) { return bytes >= 2 * huge_page; }
constexpr std::size_t mapped_size(std::size_t bytes) { return (bytes + huge_page - 1) / huge_page * huge_page; }

// Zero pages that begin on a huge page: maps one huge page more and unmaps the rest.
inline void* map_huge_pages(std::size_t bytes) {
    std::size_t const size = mapped_size(bytes);
    void* const mapping = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) fail_for_memory();
    auto* const begin = static_cast<std::byte*>(mapping);
    std::size_t const before = (huge_page - reinterpret_cast<std::uintptr_t>(mapping) % huge_page) % huge_page;
    if (before != 0) munmap(begin, before);
    munmap(begin + before + size, huge_page - before);
    // A kernel without huge pages rejects it: small pages are used then.
    (void)madvise(begin + before, size, MADV_HUGEPAGE);
    return begin + before;
}
inline void unmap_huge_pages(void* p, std::size_t bytes) { munmap(p, mapped_size(bytes)); }

// Large arrays that are read and written side by side. By default, mappings are adjacent or a page
// apart. With arrays of a power of two of elements this is the worst distance
// (docs/explanation/performance_model.md, "Large buffers"). So each array begins some lines further
// into its first page than the one before.
constexpr bool is_large_stream(std::size_t bytes) { return bytes >= 16 * huge_page; }
inline void* map_stream(std::size_t bytes) {
    static std::atomic<std::size_t> mapped = 0;
    std::size_t const into = mapped.fetch_add(1, std::memory_order_relaxed) % 8 * (81 * 64);
    return static_cast<std::byte*>(map_huge_pages(bytes + into)) + into;
}
inline void unmap_stream(void* p, std::size_t bytes) {
    std::size_t const into = reinterpret_cast<std::uintptr_t>(p) % huge_page;
    unmap_huge_pages(static_cast<std::byte*>(p) - into, bytes + into);
}
#else
constexpr bool has_own_mapping(std::size_t) { return false; }
inline void* map_huge_pages(std::size_t) { fail_for_memory(); }
inline void unmap_huge_pages(void*, std::size_t) {}
constexpr bool is_large_stream(std::size_t) { return false; }
inline void* map_stream(std::size_t) { fail_for_memory(); }
inline void unmap_stream(void*, std::size_t) {}
#endif
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// An allocator for large arrays that are accessed at random rows. On Linux it requests huge pages,
/// which make such access faster (a TLB entry then covers 2 MiB instead of 4 KiB). The kernel
/// grants them if /sys/kernel/mm/transparent_hugepage/enabled says `madvise` or `always`; otherwise
/// the memory has small pages.
///
///     std::vector<float, gs::huge_page_allocator<float>> rows(n);    // zeros, and no page is touched
///
/// The memory is zero. From 4 MiB on it is mapped, at a multiple of 2 MiB and in whole huge pages,
/// and uses no RAM before it is written. Smaller arrays, and arrays on other systems, are zeroed,
/// at a multiple of 64 bytes.
///
/// A container constructs elements without arguments by leaving the memory unchanged. Elements
/// appended to fresh memory are therefore zero. A vector that has shrunk and grows again (`resize`)
/// contains old values: pass the value (`resize(n, 0)`), or use a new vector.
///
/// T must be trivially copyable and destructible, and its zero bits must be a value: numbers, and
/// structs of them. Throws std::bad_array_new_length if n * sizeof(T) overflows, and std::bad_alloc
/// if there is no memory.
template <class T> struct huge_page_allocator {
    /// The type that an allocator must name.
    using value_type = T;

    huge_page_allocator() = default;
    template <class U> huge_page_allocator(huge_page_allocator<U> const&) noexcept {}

    /// Returns n zeros.
    T* allocate(std::size_t n) {
        static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                      "gradstep: huge_page_allocator: the type is not trivial to copy or destroy; expected numbers or "
                      "structs of them");
        static_assert(alignof(T) <= static_cast<std::size_t>(detail::cache_line));
        constexpr auto largest = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
        if (n > largest / sizeof(T)) detail::fail_for_memory<std::bad_array_new_length>();
        std::size_t const bytes = n * sizeof(T);
        if (detail::has_own_mapping(bytes)) return static_cast<T*>(detail::map_huge_pages(bytes));
        return static_cast<T*>(std::memset(::operator new(bytes, detail::cache_line), 0, bytes));
    }
    /// Frees the memory that `allocate(n)` returned.
    void deallocate(T* p, std::size_t n) noexcept {
        if (detail::has_own_mapping(n * sizeof(T))) detail::unmap_huge_pages(p, n * sizeof(T));
        else ::operator delete(p, detail::cache_line);
    }

    /// Leaves the memory unchanged: it is zero when it is allocated.
    template <class U> void construct(U*) noexcept {}
    template <class U, class First, class... Rest> void construct(U* p, First&& first, Rest&&... rest) {
        ::new (static_cast<void*>(p)) U(std::forward<First>(first), std::forward<Rest>(rest)...);
    }

    friend bool operator==(huge_page_allocator const&, huge_page_allocator const&) = default;
};
} // namespace gradstep::inline GRADSTEP_ISA
