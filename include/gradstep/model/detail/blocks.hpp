#pragma once
#include <gradstep/memory/executor.hpp>
#include <gradstep/number/detail/reduce.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Prefetches the first `bytes` of object i of a list of pointers. The objects lie scattered in
// memory: for a thousand small parameters, loading them costs as much as updating them.
template <class Pointers>
void fetch([[maybe_unused]] Pointers const& all, [[maybe_unused]] std::size_t i,
           [[maybe_unused]] std::size_t bytes = 1) {
#if defined(__GNUC__)
    if (i >= all.size()) return;
    auto const at = reinterpret_cast<std::uintptr_t>(&*all[i]); // as a number, which may go beyond what is shorter
    for (std::size_t k = 0; k < bytes; k += 64) __builtin_prefetch(reinterpret_cast<void const*>(at + k));
#endif
}

// Calls f(i, first, last) for chunks of all[i] that cover each object once, on the threads of an
// executor, or on the caller's thread. The objects are laid end to end by their traffic, size()
// elements of bytes_per_element() each, and split into equal parts at multiples of a block.
template <class Pointers, class F>
void for_each_block_of(Pointers const& all, executor_reference const* threads, F const& f) {
    if (threads == nullptr) { // whole ones
        for (std::size_t i = 0; i < all.size(); ++i) {
            fetch(all, i + 1, 512);
            if (std::size_t const elements = all[i]->size(); elements != 0) f(i, std::size_t{0}, elements);
        }
        return;
    }
    std::size_t bytes = 0;
    for (auto const& one : all) bytes += one->size() * one->bytes_per_element();
    std::size_t const parts = part_count(bytes, threads->concurrency());
    auto const run_part = [&](std::size_t part) {
        std::size_t const low = bytes / parts * part, high = part + 1 == parts ? bytes : bytes / parts * (part + 1);
        std::size_t offset = 0;
        for (std::size_t i = 0; i < all.size() && offset < high; ++i) {
            fetch(all, i + 1);
            std::size_t const each = all[i]->bytes_per_element(), elements = all[i]->size();
            auto const cut = [&](std::size_t at) {
                if (at <= offset) return std::size_t{0};
                if (at - offset >= elements * each) return elements;
                return (at - offset) / each / block_size * block_size;
            };
            std::size_t const first = cut(low), last = cut(high);
            if (first < last) f(i, first, last);
            offset += elements * each;
        }
    };
    if (parts < 2) run_part(0);
    else threads->run(parts, task(run_part, bytes));
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
