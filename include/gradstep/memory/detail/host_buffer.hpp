#pragma once
#include <vector>

#include <gradstep/memory/huge_pages.hpp>
#include <gradstep/policy/concepts.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The memory of an owning parameter on the host. It is aligned to cache lines, where packs load and
// store fastest; large arrays are on huge pages. Other arrays of at least 2 KiB begin at a multiple
// of 1 KiB, so that their offsets within a page are equal or far apart. If the lowest twelve bits
// of two addresses are equal, a processor takes a read for a read of recently written data, and
// waits (4 KiB aliasing). Arrays whose offsets differ by 64 to 256 bytes, as a heap places arrays
// of a power of two of elements, are the worst case (docs/explanation/performance_model.md).
template <class T> struct line_allocator {
    using value_type = T;
    static constexpr std::size_t line = 64, apart = 1024;

    line_allocator() = default;
    template <class U> line_allocator(line_allocator<U> const&) noexcept {}
    T* allocate(std::size_t n) {
        std::size_t const bytes = n * sizeof(T);
        if (is_large_stream(bytes)) return static_cast<T*>(map_stream(bytes));
        return static_cast<T*>(is_offset(bytes) ? allocate_at_offset(bytes)
                                                : ::operator new(bytes, std::align_val_t(line)));
    }
    void deallocate(T* p, std::size_t n) noexcept {
        std::size_t const bytes = n * sizeof(T);
        if (is_large_stream(bytes)) unmap_stream(p, bytes);
        else if (is_offset(bytes)) ::operator delete(reinterpret_cast<void**>(p)[-1]);
        else ::operator delete(p, std::align_val_t(line));
    }
    friend bool operator==(line_allocator const&, line_allocator const&) = default;

private:
    static constexpr bool is_offset(std::size_t bytes) { return bytes >= 2 * apart; }
    // The first multiple of 1 KiB in a block that is 1 KiB longer; the start of the block is stored
    // before it. An aligned new would fragment the heap of glibc before 2.38: while parameters come
    // and go, it would grow to many times the live memory.
    static void* allocate_at_offset(std::size_t bytes) {
        static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= sizeof(void*));
        void* const block = ::operator new(bytes + apart);
        void* const p = static_cast<std::byte*>(block) + (apart - reinterpret_cast<std::uintptr_t>(block) % apart);
        static_cast<void**>(p)[-1] = block;
        return p;
    }
};

// How backends of the host store the buffers of owning parameters.
struct host_buffers {
    using memory_space = host_memory;
    template <class T> using buffer = std::vector<T, line_allocator<T>>;
    template <class T> using table_buffer = std::vector<T, huge_page_allocator<T>>; // rows at random addresses

    template <class T> static buffer<T> copy_of(std::span<T const> x, host_memory) { return {x.begin(), x.end()}; }
    template <class T> static auto* data(buffer<T>& b) { return b.data(); }
    template <class T> static void copy_to_host(std::span<T const> from, std::span<T> to) {
        std::copy(from.begin(), from.end(), to.begin());
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
