#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <gradstep/core/error.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

inline constexpr std::align_val_t cache_line{64};

#if defined(__linux__)
inline constexpr std::size_t huge_page = std::size_t{1} << 21;

constexpr bool has_own_mapping(std::size_t bytes) { return bytes >= 2 * huge_page; }
constexpr std::size_t mapped_size(std::size_t bytes) { return (bytes + huge_page - 1) / huge_page * huge_page; }

// Zero pages from the boundary of a huge page on: the mapping is larger by one, and what lies outside is given back.
inline void* map_huge_pages(std::size_t bytes) {
    std::size_t const size = mapped_size(bytes);
    void* const mapping = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) fail_for_memory();
    auto* const begin = static_cast<std::byte*>(mapping);
    std::size_t const before = (huge_page - reinterpret_cast<std::uintptr_t>(mapping) % huge_page) % huge_page;
    if (before != 0) munmap(begin, before);
    munmap(begin + before + size, huge_page - before);
    (void)madvise(begin + before, size, MADV_HUGEPAGE); // refused by a kernel without huge pages: then small ones serve
    return begin + before;
}
inline void unmap_huge_pages(void* p, std::size_t bytes) { munmap(p, mapped_size(bytes)); }

// Large arrays that are read and written side by side. Mapped as they come they lie apart by their size and a page or none, which
// for a power of two of elements is the worst distance there is (docs/performance.md, "Placing big buffers"): so each begins some
// lines further into its first page than the one before.
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

} // namespace GRADSTEP_ISA
} // namespace detail

inline namespace GRADSTEP_ISA {
/// An allocator for large arrays that are accessed at random rows: on Linux it asks for huge pages, which make such
/// access 1.2 to 3 times faster (a translation buffer entry then covers 2 MiB instead of 4 KiB). The kernel grants them
/// if /sys/kernel/mm/transparent_hugepage/enabled says `madvise` or `always`; otherwise the memory has small pages.
///
///     std::vector<float, gs::huge_page_allocator<float>> rows(n);    // zeros, and no page is touched
///
/// Memory is zero when it comes: from 4 MiB on it is mapped, at a multiple of 2 MiB and in whole huge pages, and takes
/// no RAM before it is written; below, and on other systems, it is zeroed, at a multiple of 64 bytes.
/// A container constructs elements without arguments by leaving memory as it is. So whatever it appends to fresh memory
/// is zero; but a vector that has shrunk and grows again (`resize`) finds what was there: give it the value
/// (`resize(n, 0)`), or make a new one.
/// T must be trivially copyable and destructible, and zero bits its value: numbers, and structs of them.
/// Throws std::bad_array_new_length if n * sizeof(T) cannot be counted, and std::bad_alloc if there is no memory.
template <class T> struct huge_page_allocator {
    /// What an allocator has to name: `value_type`.
    using value_type = T;

    huge_page_allocator() = default;
    template <class U> huge_page_allocator(huge_page_allocator<U> const&) noexcept {}

    /// n zeros.
    T* allocate(std::size_t n) {
        static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                      "gradstep: huge_page_allocator is for numbers and structs of them");
        static_assert(alignof(T) <= static_cast<std::size_t>(detail::cache_line));
        constexpr auto largest = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
        if (n > largest / sizeof(T)) detail::fail_for_memory<std::bad_array_new_length>();
        std::size_t const bytes = n * sizeof(T);
        if (detail::has_own_mapping(bytes)) return static_cast<T*>(detail::map_huge_pages(bytes));
        return static_cast<T*>(std::memset(::operator new(bytes, detail::cache_line), 0, bytes));
    }
    /// Gives back what `allocate(n)` gave.
    void deallocate(T* p, std::size_t n) noexcept {
        if (detail::has_own_mapping(n * sizeof(T))) detail::unmap_huge_pages(p, n * sizeof(T));
        else ::operator delete(p, detail::cache_line);
    }

    /// Leaves the memory as it is: zero, as it came.
    template <class U> void construct(U*) noexcept {}
    template <class U, class First, class... Rest> void construct(U* p, First&& first, Rest&&... rest) {
        ::new (static_cast<void*>(p)) U(std::forward<First>(first), std::forward<Rest>(rest)...);
    }

    friend bool operator==(huge_page_allocator const&, huge_page_allocator const&) = default;
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
