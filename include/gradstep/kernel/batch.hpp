#pragma once
#include <algorithm>
#include <cstddef>

#include <gradstep/base/compiler.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A batch of one tensor. A batch is the work of a backend: kernels over `count()` tensors, where
/// tensor k has `size(k)` elements. `visit(k, f)` calls f with the kernel of tensor k. Its
/// `at<V>(i, which)` updates element i, or as many elements as the pack V has lanes. `bytes` is the
/// memory traffic of one element; backends use it to decide whether threads are worth their cost.
template <class Kernel> struct single {
    Kernel kernel;
    std::size_t elements;
    std::size_t bytes;

    std::size_t count() const { return 1; }
    std::size_t size(std::size_t) const { return elements; }
    template <class F> GRADSTEP_INLINE void visit(std::size_t, F&& f) const { f(kernel); }
};
template <class Kernel> single(Kernel, std::size_t, std::size_t) -> single<Kernel>;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Batch> std::size_t total_size(Batch const& batch) {
    std::size_t total = 0;
    for (std::size_t k = 0; k < batch.count(); ++k) total += batch.size(k);
    return total;
}

// Calls f(k, first, last) for the elements of every tensor k that lie in [begin, end) of all
// elements laid end to end.
template <class Batch, class F>
GRADSTEP_INLINE void for_each_part_of(Batch const& batch, std::size_t begin, std::size_t end, F const& f) {
    for (std::size_t k = 0, offset = 0; k < batch.count() && offset < end; offset += batch.size(k), ++k) {
        std::size_t const first = std::max(begin, offset) - offset;
        std::size_t const last = std::min(end, offset + batch.size(k)) - std::min(end, offset);
        if (first < last) f(k, first, last);
    }
}

// Runs one kernel, out of line: updaters of different types can share it.
template <class Backend, class Kernel>
[[gnu::noinline]] void run_single(Backend const& backend, Kernel const& kernel, std::size_t n, std::size_t bytes) {
    backend.run(single<Kernel>{kernel, n, bytes});
}
// The same for elements [first, last), on the caller's thread.
template <class Backend, class Kernel>
[[gnu::noinline]] void run_single_part(Backend const& backend, Kernel const& kernel, std::size_t n, std::size_t bytes,
                                       std::size_t first, std::size_t last) {
    backend.run_part(single<Kernel>{kernel, n, bytes}, first, last);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
