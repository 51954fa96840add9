#pragma once
#include <gradstep/backends/simd_pack.hpp>
#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/detail/block_kernel.hpp>
#include <gradstep/kernel/detail/copying_kernel.hpp>
#include <gradstep/kernel/detail/row_wise.hpp>
#include <gradstep/kernel/detail/sweep.hpp>
#include <gradstep/memory/default_backend.hpp>
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/number/detail/reduce.hpp>
#include <gradstep/number/subnormals.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The CPU backend: vectorized by xsimd packs of the architecture `Arch`, by default the best that
/// the compiler's flags allow. It runs on the caller's thread or on an executor.
/// `simd_backend{executor}` refers to the executor. The executor must outlive the backend and every
/// updater, step and parameter made with it; a temporary executor does not compile.
///
/// A call is split into contiguous parts, each with at least 256 KiB of memory traffic. There is
/// one part per thread of the executor, or up to `parts_per_thread` parts if the executor defines
/// it. Calls below 512 KiB (about 8 microseconds) stay on the caller's thread. The bits are the
/// same for any split.
template <class Arch = detail::best_arch, class Executor = serial_executor>
class simd_backend : public detail::host_buffers {
public:
    /// Whether it runs the kernels of `block8`, which work on blocks.
    static constexpr bool runs_blocks = true;
    /// Whether it has `sums_of`, for model-wise rules.
    static constexpr bool sums_models = true;
    /// Whether calls on single tensors are inlined into the caller: if there is no executor.
    static constexpr bool runs_inline = std::same_as<Executor, serial_executor>;

    explicit simd_backend(subnormals mode = subnormals::flush) requires std::same_as<Executor, serial_executor>
        : mode_(mode) {}
    explicit simd_backend(Executor& executor, subnormals mode = subnormals::flush) : executor_(&executor), mode_(mode) {
        static_assert(gradstep::executor<Executor>, "gradstep: simd_backend: the argument is no executor; expected a "
                                                    "type with concurrency() and run(parts, work)");
    }
    explicit simd_backend(Executor const&&, subnormals = subnormals::flush) {
        static_assert(
            sizeof(Executor) == 0,
            "gradstep: simd_backend: the executor is a temporary, and must outlive the backend; expected a variable");
    }

    template <class Batch> GRADSTEP_INLINE void run(Batch const& batch) const {
        std::size_t const n = detail::total_size(batch);
        if constexpr (runs_inline) { // parallel parts would compile a second copy of all kernels
            run_part(batch, 0, n);
        } else {
            std::size_t const bytes = n * batch.bytes, parts = small_parts_for(bytes);
            if (parts < 2) return run_part(batch, 0, n);
            // Each part is a whole number of cache lines in every buffer that begins on a cache
            // line.
            std::size_t const share = (n / parts + line) / line * line;
            // Its address goes to other threads; the serial path keeps `batch` in registers.
            Batch const shared = batch;
            auto const run_share = [&](std::size_t p) {
                run_part(shared, std::min(n, p * share), std::min(n, (p + 1) * share));
            };
            executor_->run(parts, task(run_share, bytes));
        }
    }

    /// Runs elements [begin, end) of the batch, where the tensors are concatenated, on the calling
    /// thread. For code that splits a call itself.
    template <class Batch>
    GRADSTEP_INLINE void run_part(Batch const& batch, std::size_t begin, std::size_t end) const noexcept {
        detail::flush_guard const guard(mode_);
        bool const is_cached = (end - begin) * batch.bytes <= detail::cached_bytes;
        detail::for_each_part_of(batch, begin, end,
                                 [&](std::size_t k, std::size_t first, std::size_t last)
                                     GRADSTEP_INLINE_LAMBDA { run_tensor(batch, k, first, last, is_cached); });
    }
    // An overload for one kernel: each function that a kernel is inlined through would compile
    // another copy of it.
    template <class Kernel>
    GRADSTEP_INLINE void run_part(single<Kernel> const& batch, std::size_t begin, std::size_t end) const noexcept {
        detail::flush_guard const guard(mode_);
        detail::sweep<simd<typename Kernel::traits::compute, Arch>>(
            batch.kernel, begin, end, (end - begin) * batch.bytes <= detail::cached_bytes);
    }

    /// Runs one step of a row-wise rule on one tensor: `accumulate`, `finalize`, `apply`.
    template <class Kernel, class Row> GRADSTEP_INLINE void run_row_wise(single<Kernel> batch, Row const& row) const {
        using sums = detail::block_sums<Kernel>;
        using packs = pack<typename Kernel::compute>;
        std::size_t const n = batch.elements;
        if (parts_for(n * batch.bytes) < 2) // changes the floating-point mode once for all three
            return for_each_part(1, [&](std::size_t) {
                detail::finalize(batch.kernel, sums::template of_all<packs>(batch.kernel, n), n, row);
                run(batch);
            });
        auto const total = sum_of_blocks<typename sums::totals>(
            detail::block_count(n), n * batch.bytes,
            [kernel = batch.kernel, n](std::size_t b) { return sums::template of_block<packs>(kernel, n, b); },
            [](auto& to, auto const& part) { sums::add(to, part); });
        for_each_part(1, [&](std::size_t) { detail::finalize(batch.kernel, total, n, row); });
        run(batch);
    }

    /// Returns the sums of a model-wise rule over one tensor: `accumulate`.
    template <class Kernel> auto sums_of(single<Kernel> const& batch) const {
        using sums = detail::block_sums<Kernel>;
        using packs = pack<typename Kernel::compute>;
        std::size_t const n = batch.elements;
        return sum_of_blocks<typename sums::totals>(
            detail::block_count(n), n * batch.bytes,
            [kernel = batch.kernel, n](std::size_t b) { return sums::template of_block<packs>(kernel, n, b); },
            [](auto& to, auto const& part) { sums::add(to, part); });
    }

    template <class S> double sum_of_squares(std::span<S const> x, double scale = 1) const {
        return sum_of_blocks<double>(
            detail::block_count(x.size()), x.size_bytes(),
            [&](std::size_t b) { return detail::block_sum(x, b, scale); }, [](double& to, double part) { to += part; });
    }

    /// The pack for the rows of a table (rows/detail/host_rows.hpp). `parts_for(bytes)` is the
    /// number of parts for a call of this size, and `for_each_part` calls f(part) for each part,
    /// with subnormals in this backend's mode.
    template <class T> using pack = simd<T, Arch>;
    std::size_t parts_for(std::size_t bytes) const {
        if constexpr (runs_inline) return 1;
        else return detail::part_count(bytes, executor_->concurrency());
    }
    template <class F> void for_each_part(std::size_t parts, F const& f, std::size_t bytes = SIZE_MAX) const {
        auto const guarded = [&](std::size_t part) {
            detail::flush_guard const guard(mode_); // each thread has its own floating-point mode
            f(part);
        };
        if (parts < 2) guarded(0);
        else executor_->run(parts, task(guarded, bytes));
    }

    std::string description() const { return "simd_backend<" + std::string(Arch::name()) + ">"; }

private:
    // Elements [first, last) of tensor k. Out of line: all calls of an updater share these loops,
    // which take most of the time to compile.
    template <class Batch>
    [[gnu::noinline]] static void run_tensor(Batch const& batch, std::size_t k, std::size_t first, std::size_t last,
                                             bool is_cached) {
        batch.visit(k, [&](auto const& kernel) GRADSTEP_INLINE_LAMBDA {
            using compute = typename std::remove_cvref_t<decltype(kernel)>::traits::compute;
            detail::sweep<simd<compute, Arch>>(kernel, first, last, is_cached);
        });
    }

    static constexpr std::size_t line = 64;

    std::size_t small_parts_for(std::size_t bytes) const {
        if constexpr (runs_inline) return 1;
        else return detail::small_part_count(bytes, *executor_);
    }

    // Returns of_block(0) + ... + of_block(blocks - 1), always added in this order.
    template <class Sum, class F, class Add>
    Sum sum_of_blocks(std::size_t blocks, std::size_t bytes, F const& of_block, Add const& add) const {
        Sum sum = {};
        std::size_t const parts = small_parts_for(bytes);
        using part_sum = decltype(of_block(0));
        std::unique_ptr<part_sum[]> const each(parts < 2 ? nullptr : new (std::nothrow) part_sum[blocks]);
        if (each == nullptr) { // also without memory: the step has begun and must not throw
            for_each_part(1, [&](std::size_t) {
                for (std::size_t b = 0; b < blocks; ++b) add(sum, of_block(b));
            });
            return sum;
        }
        auto const run_share = [&](std::size_t p) {
            for (std::size_t b = p * blocks / parts; b < (p + 1) * blocks / parts; ++b) each[b] = of_block(b);
        };
        for_each_part(parts, run_share, bytes);
        for_each_part(1, [&](std::size_t) {
            for (std::size_t b = 0; b < blocks; ++b) add(sum, each[b]);
        });
        return sum;
    }

    Executor* executor_ = nullptr;
    subnormals mode_;
};
simd_backend()->simd_backend<>;
simd_backend(subnormals)->simd_backend<>;
template <class Executor> simd_backend(Executor&) -> simd_backend<detail::best_arch, Executor>;
template <class Executor> simd_backend(Executor&, subnormals) -> simd_backend<detail::best_arch, Executor>;

template <class Element> struct default_backend { using type = simd_backend<>; };

/// Measures on this processor how steps in the caches should compute roots and quotients, and lets
/// all following steps of code for this instruction set do so. It takes about a millisecond.
/// Returns what it chose: "divider", "quotients by multiply-adds" or "roots by multiply-adds". No
/// bit of any result depends on it. Without a call, a table of processors decides, which knows Zen
/// 4 and Intel's Sapphire, Emerald and Granite Rapids, and takes the divider elsewhere. The
/// environment variable GRADSTEP_TUNE=1 asks for the same at the first step; only it reaches the
/// compiled code of gradstep::runtime and of the C library. Without AVX-512 there is no choice.
inline char const* tune() {
#if GRADSTEP_AVX512
    using detail::x86::newton_mode;
    newton_mode const best = detail::x86::measured_newton_mode();
    detail::x86::newton_mode_here = best;
    if (best == newton_mode::quotients) return "quotients by multiply-adds";
    if (best == newton_mode::roots) return "roots by multiply-adds";
#endif
    return "divider";
}
} // namespace gradstep::inline GRADSTEP_ISA
