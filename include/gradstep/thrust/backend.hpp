#pragma once
#include <thrust/copy.h>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#include <thrust/system/cuda/execution_policy.h>
#endif

#include <gradstep/base/error.hpp>
#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/detail/row_wise.hpp>
#include <gradstep/kernel/detail/sweep.hpp>
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/number/lanes.hpp>
#include <gradstep/number/subnormals.hpp>
#include <gradstep/rows/detail/host_rows.hpp>
#include <gradstep/thrust/compression.hpp>
#include <gradstep/thrust/detail/background_copy.hpp>
#include <gradstep/thrust/detail/sums.hpp>
#include <gradstep/thrust/detail/work.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Whether an execution policy runs on CUDA.
#if defined(__CUDACC__)
template <class Derived> std::true_type runs_on_cuda(thrust::cuda_cub::execution_policy<Derived> const&);
#endif
std::false_type runs_on_cuda(...);
template <class Policy> inline constexpr bool is_cuda = decltype(runs_on_cuda(std::declval<Policy const&>()))::value;

#if defined(__CUDACC__)
template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, std::remove_cvref_t<Types>> || ...);
// Whether a policy is Thrust's, without an allocator of the caller.
template <class Policy>
inline constexpr bool is_plain_policy =
    is_one_of<Policy, decltype(thrust::device), decltype(thrust::cuda::par), decltype(thrust::cuda::par.on(nullptr)),
              decltype(thrust::cuda::par_nosync), decltype(thrust::cuda::par_nosync.on(nullptr))>;
#endif

template <class Policy> using thrust_arch_of = std::conditional_t<is_cuda<Policy>, device_threads, thrust_arch>;

template <class Updater> class thrust_rows;

// The buffers of an owning parameter on a GPU.
struct device_buffers {
    using memory_space = device_memory;
    template <class T> using buffer = thrust::device_vector<T>;
    template <class T> using table_buffer = thrust::device_vector<T>;

    template <class T> static T* data(buffer<T>& b) { return thrust::raw_pointer_cast(b.data()); }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
template <class T, class Allocator> struct buffer_traits<thrust::device_vector<T, Allocator>> {
    using memory_space = std::conditional_t<detail::is_cuda<decltype(thrust::device)>, device_memory, host_memory>;
    static T* data(thrust::device_vector<T, Allocator>& b) { return thrust::raw_pointer_cast(b.data()); }
    static T const* data(thrust::device_vector<T, Allocator> const& b) { return thrust::raw_pointer_cast(b.data()); }
    static std::size_t size(thrust::device_vector<T, Allocator> const& b) { return b.size(); }
};
template <class T, class Allocator> struct buffer_traits<thrust::host_vector<T, Allocator>> {
    using memory_space = host_memory;
    static T* data(thrust::host_vector<T, Allocator>& b) { return b.data(); }
    static T const* data(thrust::host_vector<T, Allocator> const& b) { return b.data(); }
    static std::size_t size(thrust::host_vector<T, Allocator> const& b) { return b.size(); }
};

/// The Thrust backend, which runs steps on a GPU or on the CPU. `Policy` is a Thrust execution
/// policy, stored by value. On a GPU use `thrust::cuda::par_nosync.on(stream)`: the stream orders
/// the steps, and no step waits. On the CPU use `thrust::device` with the OMP, TBB or CPP system.
/// All systems share one source, and have the bits of every other backend (except that CUDA keeps
/// subnormals and the CPU flushes them).
///
/// On CUDA, buffers are in device memory (thrust::device_vector, or a span of it); host containers
/// do not compile. As many tensors of a call share a launch as fit into a kernel's argument
/// (docs/how_to/gpu.md). Device errors are thrown as thrust::system_error. On the CPU systems,
/// blocks of elements run with packs of `Arch`, an architecture of xsimd: by default the best that
/// the compiler's flags allow. If xsimd is not found, `Arch` is `void`, which runs one element at a
/// time.
template <class Policy = std::remove_cvref_t<decltype(thrust::device)>, class Arch = detail::thrust_arch_of<Policy>>
class thrust_backend
    : public std::conditional_t<detail::is_cuda<Policy>, detail::device_buffers, detail::host_buffers> {
    static constexpr bool on_cuda = detail::is_cuda<Policy>;
    static constexpr bool by_threads = std::is_same_v<Arch, detail::device_threads>;
    static_assert(
        by_threads || !on_cuda,
        "gradstep: thrust_backend: `Arch` is given on CUDA; expected none, since it is for Thrust's CPU systems");

public:
    /// Whether it runs the kernels of `block8`, which work on blocks: on the CPU systems.
    static constexpr bool runs_blocks = !by_threads;

    explicit thrust_backend(Policy policy = Policy{})
        : policy_(policy), scratch_(std::make_shared<detail::scratch_list<thrust_backend>>()) {}
    thrust_backend(thrust_backend const&) = default; // no move: a moved-from backend still works
    thrust_backend& operator=(thrust_backend const&) = default;

    template <class Batch> void run(Batch const& batch) const {
        gathering all(*this);
        all.add(batch);
        all.run();
    }
    template <class Kernel> void run(single<Kernel> const& batch) const {
        with_work(batch.kernel, batch.elements, batch.bytes, [&](auto& work) { launch(work); });
    }

    /// Collects the updates of several calls into shared launches. Call `add(batch)` for each call,
    /// then `run()`, which launches everything that is left. Nothing waits for the device.
    class gathering {
    public:
        explicit gathering(thrust_backend const& on) : on_(&on), scratch_(on.take_scratch()) {}
        template <class Batch> void add(Batch const& batch) {
            for (std::size_t k = 0; k < batch.count(); ++k)
                batch.visit(k, [&, n = batch.size(k)](auto const& kernel) {
                    on_->with_work(kernel, n, batch.bytes, [&](auto& work) {
                        if (scratch_ != nullptr) scratch_->waiting.add(*on_, work);
                        else on_->launch(work); // no memory: the step has begun and must not throw now
                    });
                });
        }
        void run() {
            if (scratch_ != nullptr) scratch_->waiting.launch_all(*on_);
        }

    private:
        thrust_backend const* on_;
        typename detail::scratch_list<thrust_backend>::loan scratch_;
    };
    /// Whether updates collected on this backend can share launches with updates on `other`,
    /// because both use the same stream.
    bool shares_launches_with([[maybe_unused]] thrust_backend const& other) const {
#if defined(__CUDACC__)
        if constexpr (on_cuda) return stream() == other.stream();
#endif
        return true;
    }

    /// Runs one step of a row-wise rule on one tensor: `accumulate`, `finalize`, `apply`. It keeps
    /// its memory on the device, and waits only if a tensor needs more memory than any tensor
    /// before. If memory does not suffice, the CPU systems accumulate on one thread.
    template <class Kernel, class Row> void run_row_wise(single<Kernel> const& batch, Row const& row) const {
        using block_sums = detail::block_sums<Kernel>;
        using sums = typename block_sums::sums;
        std::size_t const n = batch.elements, count = detail::block_count(n);
        if constexpr (by_threads) {
            using settling = detail::settled_kernel<Kernel>;
            auto const scratch = require_scratch();
            sums* const blocks = detail::memory_of<sums>(scratch->blocks, count);
            using settled_type = gradstep::settled<typename Kernel::rule_type, typename Kernel::compute>;
            auto* const settled = detail::memory_of<settled_type>(scratch->result, 1);
            add_all(detail::row_wise_sums<Kernel, Row>{batch.kernel, n, row, settled}, blocks, count);
            run(single<settling>{{batch.kernel, settled}, n, batch.bytes});
        } else {
            using packs = pack<typename Kernel::compute>;
            auto const scratch = take_scratch();
            sums* blocks = nullptr; // without memory, a step that has begun must not throw now
            if (scratch != nullptr)
                static_cast<void>(
                    detail::exception_of([&] { blocks = detail::memory_of<sums>(scratch->blocks, count); }));
            single<Kernel> settled = batch;
            if (blocks != nullptr)
                for_each(count, detail::run_accumulate_block<Kernel, packs>{batch.kernel, n, blocks});
            for_each(1, [&](std::size_t) {
                auto const total = blocks != nullptr ? block_sums::of_blocks(blocks, count)
                                                     : block_sums::template of_all<packs>(batch.kernel, n);
                detail::finalize(settled.kernel, total, n, row);
            });
            run(settled);
        }
    }

    /// Returns the sum of (scale * x[i])^2 over all i, in double. Waits for the result.
    template <class S> double sum_of_squares(std::span<S const> x, double scale = 1) const {
        std::size_t const count = detail::block_count(x.size());
        auto const scratch = require_scratch();
        double* const blocks = detail::memory_of<double>(scratch->blocks, count);
        double* const total = detail::memory_of<double>(scratch->result, 1);
        detail::squares<S> const of{x.data(), x.size(), scale, total};
        if constexpr (by_threads) {
            add_all(of, blocks, count);
        } else {
            for_each(count, detail::run_block_sum<S>{x, scale, blocks});
            for_each(1, detail::run_blocks<detail::squares<S>>{of, blocks, count});
        }
        double sum = 0;
        copy_to_host(std::span<double const>(total, 1), std::span<double>(&sum, 1));
        return sum;
    }

    /// Returns the index of the first NaN or infinity, or x.size() if there is none. Waits for the
    /// result.
    template <class S> std::size_t find_nonfinite(std::span<S const> x) const requires(by_threads) {
        thrust::counting_iterator<std::size_t> const first(0), last(x.size());
        return algorithm([&](auto const& policy) {
            return *thrust::find_if(policy, first, last, detail::is_nonfinite<S>{x.data()});
        });
    }

    /// Copies host memory, or the caller's device memory, into a new buffer of an owning parameter.
    /// Waits for earlier steps.
    template <class T, class Space> auto copy_of(std::span<T const> x, Space) const {
        using owned = typename thrust_backend::template buffer<T>;
        if constexpr (on_cuda && std::is_same_v<Space, device_memory>) {
            wait();
            auto const first = thrust::device_pointer_cast(x.data());
            return owned(first, first + x.size());
        } else {
            return owned(x.data(), x.data() + x.size());
        }
    }
    /// Copies a buffer of an owning parameter to host memory. Waits for earlier steps.
    template <class T> void copy_to_host(std::span<T const> from, std::span<T> to) const {
        wait();
        thrust::copy(iterator(from.data()), iterator(from.data()) + from.size(), to.data());
    }
    /// Copies host memory to a buffer of an owning parameter. Waits for earlier steps.
    template <class T> void copy_from_host(std::span<T const> from, T* to) const {
        wait();
        thrust::copy(from.begin(), from.end(), iterator(to));
    }

    /// Calls f(0) to f(count - 1) on the device's threads, or on the CPU with subnormals flushed.
    template <class F> void for_each(std::size_t count, F const& f) const {
        thrust::counting_iterator<std::size_t> const first(0);
        if constexpr (on_cuda) {
            thrust::for_each_n(policy_, first, count, f);
        } else if (count != 0) {
            // Groups many calls, so that the floating-point mode is set once per group. Passes a
            // reference, so that Thrust's loop is compiled once for all groups.
            std::size_t const at_once = std::clamp<std::size_t>(count / 4096, 1, 4096);
            auto const run_some = [&](std::size_t k) {
                detail::flush_guard const guard(subnormals::flush);
                for (std::size_t i = k * at_once; i < std::min(count, (k + 1) * at_once); ++i) f(i);
            };
            thrust::for_each_n(policy_, first, (count + at_once - 1) / at_once, task(run_some));
        }
    }
    /// Runs work with a given number of indices (thrust/detail/work.hpp) in one launch.
    template <class Work> void launch(Work& work) const {
        if constexpr (requires { work.traffic(); }) work.set_cached(work.traffic() <= detail::cached_bytes);
        if (work.count() != 0) for_each(work.count(), work);
    }
    template <class Work> void launch(detail::work_table<Work>& table) const {
        if constexpr (requires { table.traffic(); }) table.set_cached(table.traffic() <= detail::cached_bytes);
        if constexpr (on_cuda) launch_table(table);
        else for_each(table.lots() * Work::lot, [&](std::size_t i) { table(i / Work::lot, i % Work::lot); });
    }
#if defined(__CUDACC__)
    /// Does what Thrust does after its launches: throws the error of a launch, and waits if the
    /// policy does.
    void launched() const {
        detail::require_cuda(cudaGetLastError());
        Policy policy = policy_;
        detail::require_cuda(thrust::cuda_cub::synchronize_optional(policy));
    }
#endif
    /// The execution policy.
    Policy const& policy() const { return policy_; }
    /// Returns f(policy), which calls one of Thrust's algorithms with this policy. On CUDA, the
    /// memory that the algorithm borrows is kept for the next call, because each allocation waits
    /// for the device. A policy with an allocator, or of your own type, is passed as it is.
    template <class F> decltype(auto) algorithm(F const& f) const {
#if defined(__CUDACC__)
        if constexpr (on_cuda && detail::is_plain_policy<Policy>) {
            auto const scratch = require_scratch();
            return f(thrust::cuda::par_nosync(&scratch->borrowed).on(stream()));
        } else
#endif
            return f(policy_);
    }

    /// Selects the entries of a compressed step.
    template <class Source> using selection_engine = detail::thrust_selection<thrust_backend, Source>;
    /// Updates the entries of a compressed step with the messages of all trainers.
    template <class S, class Update>
    void scatter(Update const& update, detail::message_list const& messages, std::size_t n) const {
        detail::scatter_on_thrust<S>(*this, update, messages, n);
    }
    /// Runs the rows of tables. On a device it is thrust/table.hpp; on the CPU systems it is the
    /// same as for other CPU backends.
    template <class Updater>
    using row_engine = std::conditional_t<by_threads, detail::thrust_rows<Updater>, detail::host_rows<Updater>>;
    /// The pack for the rows of a table on the CPU systems, as in simd_backend. `parts_for(bytes)`
    /// is the number of parts for a call of this size, and `for_each_part` calls f(part) for each
    /// part, with subnormals flushed.
    template <class T> using pack = typename detail::thrust_pack<T, Arch>::type;
    std::size_t parts_for(std::size_t bytes) const requires(!by_threads) {
        return detail::part_count(bytes, detail::thrust_threads());
    }
    template <class F>
    void for_each_part(std::size_t parts, F const& f, std::size_t = SIZE_MAX) const requires(!by_threads) {
        if (parts > 1) return for_each(parts, f);
        detail::flush_guard const guard(subnormals::flush);
        f(0);
    }
    /// Returns an iterator over this backend's memory for Thrust's algorithms.
    template <class T> static auto iterator(T* p) {
        if constexpr (on_cuda) return thrust::device_pointer_cast(p);
        else return p;
    }
#if defined(__CUDACC__)
    /// The asynchronous copy on a separate stream that an `averager` on the host uses to read
    /// parameters.
    template <class T> using background_copy = detail::background_copy<T>;
    /// The stream of the steps.
    cudaStream_t stream() const requires(on_cuda) {
        Policy policy = policy_; // Thrust requires a mutable policy
        return thrust::cuda_cub::stream(policy);
    }
#endif
    /// Sets every element of `memory` to `value`.
    template <class T> void fill(std::span<T> memory, T value) const {
        thrust::fill(policy_, iterator(memory.data()), iterator(memory.data()) + memory.size(), value);
    }

    /// Copies the elements of `from` to `to`.
    template <class T> void copy(std::span<T const> from, std::span<T> to) const {
        thrust::copy(policy_, iterator(from.data()), iterator(from.data()) + from.size(), iterator(to.data()));
    }

    std::string description() const { return on_cuda ? "thrust_backend<cuda>" : "thrust_backend<cpu>"; }

private:
    void wait() const {
#if defined(__CUDACC__)
        if constexpr (on_cuda) detail::require_cuda(cudaStreamSynchronize(stream()));
#endif
    }

    // Calls f(work) with the work of this kernel on n elements.
    template <class Kernel, class F>
    void with_work(Kernel const& kernel, std::size_t n, [[maybe_unused]] std::size_t bytes, F const& f) const {
        using compute = typename Kernel::traits::compute;
        if constexpr (by_threads) {
            static_assert(
                !on_cuda || !requires { Kernel::gradient_type::is_lazy; },
                "gradstep: thrust_backend: a lazy gradient is computed on the host; expected a gradient in device "
                "memory on CUDA");
            using wide = lanes<compute, 16 / sizeof(compute)>;
            if (kernel.template is_aligned<pack_traits<wide>::size>()) {
                detail::run_group<Kernel, wide> work{kernel, n};
                f(work);
            } else {
                detail::run_group<Kernel, compute> work{kernel, n};
                f(work);
            }
        } else {
            detail::run_block<Kernel, pack<compute>> work{kernel, n, bytes};
            f(work);
        }
    }

    // Adds the columns of `count` blocks, then the blocks.
    template <class Sum> void add_all(Sum const& sum, typename Sum::part* blocks, std::size_t count) const {
#if defined(__CUDACC__)
        if constexpr (on_cuda) {
            constexpr std::size_t at_once = detail::threads_of_sums / detail::warp;
            if (count != 0)
                detail::add_columns<<<static_cast<unsigned>((count + at_once - 1) / at_once), detail::threads_of_sums,
                                      0, stream()>>>(sum, blocks, count);
            detail::add_blocks<<<1, detail::threads_of_sums, 0, stream()>>>(sum, blocks, count);
            launched();
        } else
#endif
        {
            for_each(count, detail::run_columns<Sum>{sum, blocks});
            for_each(1, detail::run_blocks<Sum>{sum, blocks, count});
        }
    }

#if defined(__CUDACC__)
    template <class Work> void launch_table(detail::work_table<Work> const& table) const {
        detail::run_table<<<table.lots(), Work::lot, 0, stream()>>>(table);
        launched();
    }
#endif

    auto take_scratch() const {
        std::thread::id of = {};
        int device = 0;
#if defined(__CUDACC__)
        if constexpr (on_cuda) {
            if (stream() == cudaStreamPerThread) of = std::this_thread::get_id();
            if (cudaGetDevice(&device) != cudaSuccess) device = 0; // what uses the memory reports it
        }
#endif
        return scratch_->take(of, device);
    }
    auto require_scratch() const {
        auto out = take_scratch();
        if (out == nullptr) throw std::bad_alloc();
        return out;
    }

    Policy policy_;
    std::shared_ptr<detail::scratch_list<thrust_backend>> scratch_;
};
thrust_backend()->thrust_backend<>;
template <class Policy> thrust_backend(Policy) -> thrust_backend<Policy>;
} // namespace gradstep::inline GRADSTEP_ISA
