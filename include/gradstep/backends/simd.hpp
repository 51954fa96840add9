#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gradstep/backends/executors.hpp>
#include <gradstep/backends/host_buffer.hpp>
#include <gradstep/backends/simd_pack.hpp>
#include <gradstep/core/batch.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/core/subnormals.hpp>
#include <gradstep/core/sweep.hpp>
#include <gradstep/updater.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// The CPU backend: xsimd packs of the architecture `Arch` (by default the best that the compiler's flags allow), on the
/// caller's thread or on an executor. `simd_backend{executor}` refers to the executor, which must outlive it and every
/// updater, step and parameter made with it; a temporary does not compile.
///
/// A call is split into contiguous parts, one for each of the executor's threads and none of less than 256 KiB of memory
/// traffic; below 512 KiB, about 8 microseconds, it stays on the caller's thread. The bits are the same for any split.
template <class Arch = xsimd::default_arch, class Executor = serial_executor>
class simd_backend : public detail::host_buffers {
public:
    explicit simd_backend(subnormals mode = subnormals::flush) requires std::same_as<Executor, serial_executor>
        : mode_(mode) {}
    explicit simd_backend(Executor& executor, subnormals mode = subnormals::flush) : executor_(&executor), mode_(mode) {
        static_assert(gradstep::executor<Executor>,
                      "gradstep: simd_backend takes an executor: a type with concurrency() "
                      "and run(parts, work)");
    }
    explicit simd_backend(Executor const&&, subnormals = subnormals::flush) {
        static_assert(sizeof(Executor) == 0,
                      "gradstep: simd_backend refers to its executor, which must outlive it: give "
                      "a variable, not a temporary");
    }

    template <class Batch> GRADSTEP_INLINE void run(Batch const& batch) const {
        std::size_t const n = detail::total_size(batch);
        std::size_t const parts = parts_for(n * batch.bytes);
        if (parts < 2) return run_part(batch, 0, n);
        // Parts of whole cache lines in every buffer of a tensor that starts on one.
        std::size_t const share = (n / parts + line) / line * line;
        Batch const shared = batch; // its address goes to other threads, and the serial path keeps `batch` in registers
        executor_->run(parts,
                       [&](std::size_t p) { run_part(shared, std::min(n, p * share), std::min(n, (p + 1) * share)); });
    }

    template <class S> double sum_of_squares(std::span<S const> x) const {
        std::size_t const blocks = detail::block_count(x.size()), parts = parts_for(x.size_bytes());
        double sum = 0;
        if (parts < 2) {
            detail::flush_guard const guard(mode_);
            for (std::size_t b = 0; b < blocks; ++b) sum += detail::block_sum(x, b);
            return sum;
        }
        std::vector<double> sums(blocks);
        executor_->run(parts, [&](std::size_t p) {
            detail::flush_guard const guard(mode_); // threads may differ in theirs
            for (std::size_t b = p * blocks / parts; b < (p + 1) * blocks / parts; ++b)
                sums[b] = detail::block_sum(x, b);
        });
        for (double const s : sums) sum += s;
        return sum;
    }

    std::string description() const { return "simd_backend<" + std::string(Arch::name()) + ">"; }

private:
    static constexpr std::size_t line = 64, worth_threads = 512 * 1024;

    std::size_t parts_for(std::size_t bytes) const {
        if constexpr (std::same_as<Executor, serial_executor>) return 1;
        else return bytes < worth_threads ? 1 : std::min(executor_->concurrency(), bytes / (worth_threads / 2));
    }

    template <class Batch>
    GRADSTEP_INLINE void run_part(Batch const& batch, std::size_t begin, std::size_t end) const noexcept {
        detail::flush_guard const guard(mode_);
        auto const run_piece = [](auto const& kernel, std::size_t first, std::size_t last) GRADSTEP_INLINE_LAMBDA {
            using compute = typename std::remove_cvref_t<decltype(kernel)>::traits::compute;
            detail::sweep<simd<compute, Arch>>(kernel, first, last);
        };
        detail::for_each_piece(batch, begin, end, run_piece);
    }

    Executor* executor_ = nullptr;
    subnormals mode_;
};
simd_backend()->simd_backend<>;
simd_backend(subnormals)->simd_backend<>;
template <class Executor> simd_backend(Executor&) -> simd_backend<xsimd::default_arch, Executor>;
template <class Executor> simd_backend(Executor&, subnormals) -> simd_backend<xsimd::default_arch, Executor>;

template <class Element> struct default_backend { using type = simd_backend<>; };

} // namespace GRADSTEP_ISA
} // namespace gradstep
