#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

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
#include <thrust/system_error.h>
#endif

#include <gradstep/backends/host_buffer.hpp>
#include <gradstep/backends/thrust_compression.hpp>
#include <gradstep/core/batch.hpp>
#include <gradstep/core/lanes.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/core/row_wise.hpp>
#include <gradstep/core/subnormals.hpp>
#include <gradstep/core/sweep.hpp>
#include <gradstep/policies.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// Whether an execution policy runs on CUDA.
#if defined(__CUDACC__)
template <class Derived> std::true_type runs_on_cuda(thrust::cuda_cub::execution_policy<Derived> const&);
#endif
std::false_type runs_on_cuda(...);
template <class Policy> inline constexpr bool is_cuda = decltype(runs_on_cuda(std::declval<Policy const&>()))::value;

// A group of elements for each index: one thread of a GPU moves 16 bytes of floats at once.
template <class Kernel, class V> struct run_group {
    Kernel kernel;
    std::size_t n;

    GRADSTEP_HD void operator()(std::size_t group) const {
        using scalar = typename pack_traits<V>::value_type;
        constexpr std::size_t size = pack_traits<V>::size;
        std::size_t i = group * size;
        if (n - i >= size) kernel.template at<V>(i, all_lanes{});
        else
            for (; i < n; ++i) kernel.template at<scalar>(i, all_lanes{});
    }
};

// A block of elements for each index: Thrust's CPU systems, where the floating-point mode is set once a block.
template <class Kernel> struct run_block {
    static constexpr std::size_t size = 4096;
    Kernel kernel;
    std::size_t n;

    void operator()(std::size_t block) const {
        sweep<typename Kernel::traits::compute>(kernel, block * size, std::min(n, (block + 1) * size));
    }
};

template <class S> struct run_block_sum {
    std::span<S const> x;
    double scale;
    double* sums;
    void operator()(std::size_t block) const { sums[block] = block_sum(x, block, scale); }
};
template <class S> struct run_column_sum {
    S const* x;
    std::size_t n;
    double scale;
    double* sums;
    GRADSTEP_HD void operator()(std::size_t i) const {
        sums[i] = column_sum(x, n, i / block_columns, i % block_columns, scale);
    }
};
// A row-wise rule on one tensor: what each column shows, by a thread of its own; the rule's answer to their sum; the
// update by that answer, which stays in the memory of the device.
template <class Kernel> struct run_observe {
    Kernel kernel;
    std::size_t n;
    typename block_sums<Kernel>::sums* columns;
    GRADSTEP_HD void operator()(std::size_t i) const {
        columns[i] = block_sums<Kernel>::of_column(kernel, n, i / block_columns, i % block_columns);
    }
};
template <class Kernel, class Row> struct run_settle {
    Kernel kernel;
    std::size_t n;
    typename block_sums<Kernel>::sums const* columns;
    Row row;
    typename Kernel::compute* settled;
    GRADSTEP_HD void operator()(std::size_t) const {
        Kernel settling = kernel;
        settle(settling, block_sums<Kernel>::of_columns(columns, block_count(n)), n, row);
        *settled = settling.settled;
    }
};
template <class Kernel> struct settled_kernel {
    using traits = typename Kernel::traits;
    using compute = typename Kernel::compute;
    using gradient_type = typename Kernel::gradient_type;
    Kernel kernel;
    compute const* settled;
    typename Kernel::storage* weight = kernel.weight; // sweep() aligns by it
    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        Kernel with = kernel;
        with.settled = *settled;
        with.template at<V>(i, which);
    }
    template <std::size_t N> bool is_aligned() const { return kernel.template is_aligned<N>(); }
};

// f(i) on one of Thrust's CPU systems, with subnormals flushed.
template <class F> struct flushed {
    F f;
    void operator()(std::size_t i) const {
        flush_guard const guard(subnormals::flush);
        f(i);
    }
};

template <class S> struct is_nonfinite {
    S const* x;
    GRADSTEP_HD bool operator()(std::size_t i) const {
        auto const value = widen(x[i]);
        using T = std::remove_const_t<decltype(value)>;
        if constexpr (std::is_integral_v<T>) return false;
        else return !(math::abs(value) <= largest_number<T>); // true for NaN
    }
};

struct run_fold {
    double* sums;
    GRADSTEP_HD void operator()(std::size_t block) const { fold_columns(sums + block * block_columns); }
};

template <class Updater> class thrust_rows;

// Buffers of an owning parameter on a GPU.
struct device_buffers {
    using memory_space = device_memory;
    template <class T> using buffer = thrust::device_vector<T>;
    template <class T> using table_buffer = thrust::device_vector<T>;

    template <class T> static T* data(buffer<T>& b) { return thrust::raw_pointer_cast(b.data()); }
};

} // namespace detail

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

#if defined(__CUDACC__)
namespace detail {

inline void require_cuda(cudaError_t result) {
    if (result != cudaSuccess) throw thrust::system_error(result, thrust::cuda_category(), "gradstep");
}

// A copy from the device to the host's pinned memory on a stream of its own: after what the stream of its source was given
// before, and before what that is given later.
template <class T> class background_copy {
public:
    background_copy() = default;
    background_copy(background_copy&& other) noexcept
        : host_(std::exchange(other.host_, nullptr)), size_(std::exchange(other.size_, 0)),
          stream_(std::exchange(other.stream_, nullptr)), ready_(std::exchange(other.ready_, nullptr)),
          done_(std::exchange(other.done_, nullptr)) {}
    background_copy& operator=(background_copy&& other) noexcept {
        std::swap(host_, other.host_);
        std::swap(size_, other.size_);
        std::swap(stream_, other.stream_);
        std::swap(ready_, other.ready_);
        std::swap(done_, other.done_);
        return *this;
    }
    ~background_copy() {
        if (stream_ != nullptr) cudaStreamSynchronize(stream_);
        if (done_ != nullptr) cudaEventDestroy(done_);
        if (ready_ != nullptr) cudaEventDestroy(ready_);
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
        if (host_ != nullptr) cudaFreeHost(host_);
    }

    template <class Backend> void begin(Backend const& source, std::span<T const> from) {
        reserve(from.size());
        auto const updates = source.stream();
        require_cuda(cudaEventRecord(ready_, updates));
        require_cuda(cudaStreamWaitEvent(stream_, ready_, 0));
        require_cuda(cudaMemcpyAsync(host_, from.data(), from.size_bytes(), cudaMemcpyDeviceToHost, stream_));
        require_cuda(cudaEventRecord(done_, stream_));
        require_cuda(cudaStreamWaitEvent(updates, done_, 0));
    }
    std::span<T const> wait() const {
        require_cuda(cudaEventSynchronize(done_));
        return {host_, size_};
    }

private:
    void reserve(std::size_t size) {
        if (stream_ == nullptr) require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        if (ready_ == nullptr) require_cuda(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming));
        if (done_ == nullptr) require_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming));
        if (host_ == nullptr && size != 0) require_cuda(cudaMallocHost(&host_, size * sizeof(T)));
        size_ = size; // of one tensor: always as many
    }

    T* host_ = nullptr;
    std::size_t size_ = 0;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t ready_ = nullptr, done_ = nullptr;
};

} // namespace detail
#endif

/// The Thrust backend: `Policy` is a Thrust execution policy, kept by value: `thrust::cuda::par_nosync.on(stream)` on a
/// GPU (steps are ordered on the stream and none waits), `thrust::device` with the OMP, TBB or CPP system on the CPU.
/// One source for all of them, and the bits of every other backend (CUDA keeps subnormals, which the CPU flushes).
///
/// On CUDA buffers live in device memory (thrust::device_vector, or a span of it), and host containers do not compile.
/// Each tensor of a call is a launch of its own. Errors of the device arrive as thrust::system_error.
template <class Policy = std::remove_cvref_t<decltype(thrust::device)>>
class thrust_backend
    : public std::conditional_t<detail::is_cuda<Policy>, detail::device_buffers, detail::host_buffers> {
    static constexpr bool on_cuda = detail::is_cuda<Policy>;

public:
    explicit thrust_backend(Policy policy = Policy{}) : policy_(policy) {}

    template <class Batch> void run(Batch const& batch) const {
        for (std::size_t k = 0; k < batch.count(); ++k)
            batch.visit(k, [&, n = batch.size(k)](auto const& kernel) { run_tensor(kernel, n); });
    }

    /// One step of a row-wise rule on one tensor: observe, settle, update. It allocates scratch memory on the device.
    template <class Kernel, class Row> void run_row_wise(single<Kernel> const& batch, Row const& row) const {
        std::size_t const n = batch.elements, columns = detail::block_count(n) * detail::block_columns;
        using settling = detail::settled_kernel<Kernel>;
        typename thrust_backend::template buffer<typename detail::block_sums<Kernel>::sums> shown(columns);
        typename thrust_backend::template buffer<typename Kernel::compute> settled(1);
        for_each(columns, detail::run_observe<Kernel>{batch.kernel, n, this->data(shown)});
        for_each(1, detail::run_settle<Kernel, Row>{batch.kernel, n, this->data(shown), row, this->data(settled)});
        run(single<settling>{{batch.kernel, this->data(settled)}, n, batch.bytes});
    }

    /// Waits for the result.
    template <class S> double sum_of_squares(std::span<S const> x, double scale = 1) const {
        std::size_t const blocks = detail::block_count(x.size());
        double sum = 0;
        if constexpr (on_cuda) {
            thrust::device_vector<double> columns(blocks * detail::block_columns);
            double* const at = this->data(columns);
            for_each(columns.size(), detail::run_column_sum<S>{x.data(), x.size(), scale, at});
            for_each(blocks, detail::run_fold{at});
            std::vector<double> folded(columns.size());
            copy_to_host(std::span<double const>(at, columns.size()), std::span<double>(folded));
            for (std::size_t b = 0; b < blocks; ++b) sum += folded[b * detail::block_columns];
        } else {
            std::vector<double> sums(blocks);
            for_each(blocks, detail::run_block_sum<S>{x, scale, sums.data()});
            for (double const s : sums) sum += s;
        }
        return sum;
    }

    /// The first element that is not finite, x.size() if there is none. Waits for the result.
    template <class S> std::size_t find_nonfinite(std::span<S const> x) const {
        thrust::counting_iterator<std::size_t> const first(0), last(x.size());
        return *thrust::find_if(policy_, first, last, detail::is_nonfinite<S>{x.data()});
    }

    /// `copy_of`, `copy_to_host` and `copy_from_host` copy between the host, or the caller's device memory, and a buffer of
    /// an owning parameter. They wait for the steps before them.
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
    template <class T> void copy_to_host(std::span<T const> from, std::span<T> to) const {
        wait();
        thrust::copy(iterator(from.data()), iterator(from.data()) + from.size(), to.data());
    }
    template <class T> void copy_from_host(std::span<T const> from, T* to) const {
        wait();
        thrust::copy(from.begin(), from.end(), iterator(to));
    }

    /// f(0) to f(count - 1), on the device's threads; on the CPU with subnormals flushed.
    template <class F> void for_each(std::size_t count, F const& f) const {
        thrust::counting_iterator<std::size_t> const first(0);
        if constexpr (on_cuda) thrust::for_each_n(policy_, first, count, f);
        else thrust::for_each_n(policy_, first, count, detail::flushed<F>{f});
    }
    /// The execution policy.
    Policy const& policy() const { return policy_; }

    /// What compressed steps run on: the selection of entries, and their update, `scatter`.
    template <class Source> using selection_engine = detail::thrust_selection<thrust_backend, Source>;
    template <class S, class Update>
    void scatter(Update const& update, detail::message_list const& messages, std::size_t n) const {
        detail::scatter_on_thrust<S>(*this, update, messages, n);
    }
    /// What tables run on: backends/thrust_table.hpp.
    template <class Updater> using row_engine = detail::thrust_rows<Updater>;
    /// Where Thrust's algorithms find memory of this backend.
    template <class T> static auto iterator(T* p) {
        if constexpr (on_cuda) return thrust::device_pointer_cast(p);
        else return p;
    }
#if defined(__CUDACC__)
    /// How an `averager` of the host reads parameters: a copy beside the steps that follow, on a stream of its own; and the
    /// `stream()` of the steps.
    template <class T> using background_copy = detail::background_copy<T>;
    cudaStream_t stream() const requires(on_cuda) {
        Policy policy = policy_; // Thrust asks for one that it could change
        return thrust::cuda_cub::stream(policy);
    }
#endif
    /// Every element of `memory` becomes `value`.
    template <class T> void fill(std::span<T> memory, T value) const {
        thrust::fill(policy_, iterator(memory.data()), iterator(memory.data()) + memory.size(), value);
    }

    /// The elements of `from` become those of `to`.
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

    template <class Kernel> void run_tensor(Kernel const& kernel, std::size_t n) const {
        using compute = typename Kernel::traits::compute;
        if (n == 0) return;
        if constexpr (on_cuda) {
            static_assert(
                !requires { Kernel::gradient_type::is_lazy; }, "gradstep: a lazy gradient is computed on the "
                                                               "host: CUDA needs one in device memory");
            using wide = lanes<compute, 16 / sizeof(compute)>;
            constexpr std::size_t size = pack_traits<wide>::size;
            if (kernel.template is_aligned<size>())
                for_each((n + size - 1) / size, detail::run_group<Kernel, wide>{kernel, n});
            else for_each(n, detail::run_group<Kernel, compute>{kernel, n});
        } else {
            constexpr std::size_t size = detail::run_block<Kernel>::size;
            for_each((n + size - 1) / size, detail::run_block<Kernel>{kernel, n});
        }
    }

    Policy policy_;
};
thrust_backend()->thrust_backend<>;
template <class Policy> thrust_backend(Policy) -> thrust_backend<Policy>;

} // namespace GRADSTEP_ISA
} // namespace gradstep
