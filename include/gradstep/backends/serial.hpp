#pragma once
#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/detail/block_kernel.hpp>
#include <gradstep/kernel/detail/copying_kernel.hpp>
#include <gradstep/kernel/detail/row_wise.hpp>
#include <gradstep/kernel/detail/sweep.hpp>
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/number/detail/reduce.hpp>
#include <gradstep/number/subnormals.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The reference backend: a plain loop over the elements, on the caller's thread. Every other
/// backend equals it bit for bit. Read it to see what an update does.
struct serial_backend : detail::host_buffers {
    /// Whether it runs the kernels of `block8`, which work on blocks.
    static constexpr bool runs_blocks = true;
    /// Whether it has `sums_of`, for model-wise rules.
    static constexpr bool sums_models = true;

    template <class Batch> void run(Batch const& batch) const noexcept {
        run_part(batch, 0, detail::total_size(batch));
    }
    /// Runs elements [begin, end) of the batch, where the tensors are concatenated. For callers
    /// that split the work themselves.
    template <class Batch> void run_part(Batch const& batch, std::size_t begin, std::size_t end) const noexcept {
        detail::flush_guard const guard(subnormals::flush);
        bool const is_cached = (end - begin) * batch.bytes <= detail::cached_bytes;
        detail::for_each_part_of(batch, begin, end, [&](std::size_t k, std::size_t first, std::size_t last) {
            batch.visit(k, [&](auto const& kernel) {
                using compute = typename std::remove_cvref_t<decltype(kernel)>::traits::compute;
                if constexpr (requires { kernel.template at<compute>(first, all_lanes{}); })
                    for (std::size_t i = first; i < last; ++i) kernel.template at<compute>(i, all_lanes{});
                else detail::sweep<compute>(kernel, first, last, is_cached); // kernels of blocks
            });
        });
    }

    template <class Kernel, class Row> void run_row_wise(single<Kernel> batch, Row const& row) const noexcept {
        using sums = detail::block_sums<Kernel>;
        for_each_part(1, [&](std::size_t) {
            auto const total = sums::template of_all<typename Kernel::compute>(batch.kernel, batch.elements);
            detail::finalize(batch.kernel, total, batch.elements, row);
            run(batch);
        });
    }

    /// Returns the sums of a model-wise rule over one tensor: `accumulate`.
    template <class Kernel> auto sums_of(single<Kernel> const& batch) const noexcept {
        detail::flush_guard const guard(subnormals::flush);
        return detail::block_sums<Kernel>::template of_all<typename Kernel::compute>(batch.kernel, batch.elements);
    }

    template <class S> double sum_of_squares(std::span<S const> x, double scale = 1) const noexcept {
        detail::flush_guard const guard(subnormals::flush);
        return detail::sum_of_blocks(x, scale);
    }

    /// The pack of one element.
    template <class T> using pack = T;
    static std::size_t parts_for(std::size_t) { return 1; }
    template <class F> static void for_each_part(std::size_t, F const& f) {
        detail::flush_guard const guard(subnormals::flush);
        f(0);
    }
};
} // namespace gradstep::inline GRADSTEP_ISA
