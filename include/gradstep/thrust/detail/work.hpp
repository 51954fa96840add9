#pragma once
/// The work of the Thrust backend for one index of Thrust's algorithms, and how tensors share a
/// launch. thrust/backend.hpp includes it.
#include <mutex>
#include <thread>

#include <gradstep/kernel/detail/copying_kernel.hpp>
#include <gradstep/memory/buffer.hpp>
#include <gradstep/number/detail/reduce.hpp>
#include <gradstep/number/lanes.hpp>

#include <thrust/detail/config.h>
#if defined(__CUDACC__)
#include <thrust/mr/disjoint_pool.h>
#include <thrust/mr/new.h>
#include <thrust/system/cuda/memory_resource.h>
#endif
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_OMP && defined(_OPENMP)
#include <omp.h>
#elif THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_TBB
#include <tbb/task_arena.h>
#endif

// nvcc cannot parse xsimd.
#if !defined(__CUDACC__) && defined(__has_include)
#if __has_include(<xsimd/config/xsimd_config.hpp>)
#include <xsimd/config/xsimd_config.hpp>
#if XSIMD_VERSION_MAJOR * 100 + XSIMD_VERSION_MINOR >= 801 && XSIMD_VERSION_MAJOR < 15
#include <gradstep/backends/simd_pack.hpp>
#define GRADSTEP_THRUST_HAS_PACKS 1
#endif
#endif
#endif

namespace gradstep::detail::inline GRADSTEP_ISA {
// Used in place of an architecture: elements are distributed over the threads of a GPU.
struct device_threads {};

// How Thrust's CPU systems run blocks: with packs of an xsimd architecture, or one element at a
// time.
template <class T, class Arch> struct thrust_pack { using type = T; };
#if defined(GRADSTEP_THRUST_HAS_PACKS)
using thrust_arch = best_arch;
template <class T, class Arch>
requires(!std::is_void_v<Arch> && !std::is_same_v<Arch, device_threads>) struct thrust_pack<T, Arch> {
    using type = simd<T, Arch>;
};
#else
using thrust_arch = void;
#endif

// The number of threads of Thrust's CPU system.
inline std::size_t thrust_threads() {
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_OMP && defined(_OPENMP)
    return static_cast<std::size_t>(omp_get_max_threads());
#elif THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_TBB
    return static_cast<std::size_t>(tbb::this_task_arena::max_concurrency());
#else
    return 1;
#endif
}

// One index per group of elements: a GPU thread moves 16 bytes of floats at once.
template <class Kernel, class V> struct run_group {
    static constexpr std::size_t elements_each = pack_traits<V>::size;
    static constexpr std::size_t lot = 256; // indices per block of threads
    Kernel kernel;
    std::size_t n;

    GRADSTEP_HD std::size_t count() const { return (n + elements_each - 1) / elements_each; }
    GRADSTEP_HD void operator()(std::size_t group) const {
        using scalar = typename pack_traits<V>::value_type;
        std::size_t i = group * elements_each;
        if (n - i >= elements_each) kernel.template at<V>(i, all_lanes{});
        else
            for (; i < n; ++i) kernel.template at<scalar>(i, all_lanes{});
    }
};

// One index per block of elements: Thrust's CPU systems. Out of line, so that all callers share it.
template <class Kernel, class V> struct run_block {
    static constexpr std::size_t elements_each = block_size;
    static constexpr std::size_t lot = 1;
    Kernel kernel;
    std::size_t n;
    std::size_t bytes;      // per element
    bool is_cached = false; // all memory that the launch moves

    std::size_t count() const { return (n + elements_each - 1) / elements_each; }
    std::size_t traffic() const { return n * bytes; }
    void set_cached(bool cached) { is_cached = cached; }
    [[gnu::noinline]] void operator()(std::size_t block) const {
        sweep<V>(kernel, block * elements_each, std::min(n, (block + 1) * elements_each), is_cached);
    }
};

// The update of a row-wise rule on a device, whose sums (thrust/detail/sums.hpp) left their result
// in device memory.
template <class Kernel> struct settled_kernel {
    using traits = typename Kernel::traits;
    using compute = typename Kernel::compute;
    using gradient_type = typename Kernel::gradient_type;
    Kernel kernel;
    gradstep::settled<typename Kernel::rule_type, compute> const* settled;
    typename Kernel::storage* weight = kernel.weight; // sweep() aligns by it
    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        Kernel with = kernel;
        with.settled = *settled;
        with.template at<V>(i, which);
    }
    template <std::size_t N> bool is_aligned() const { return kernel.template is_aligned<N>(); }
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

// Tensors that one launch updates: the work on each, and the first lot of indices of each. A launch
// on CUDA gets the table as its argument, so it needs no device memory, no copy, and no wait.
template <class Work> class work_table {
#if defined(__CUDACC__) && __CUDACC_VER_MAJOR__ < 13
    static constexpr std::size_t bytes = 4096; // the limit of kernel arguments on every driver of this compiler
#else
    static constexpr std::size_t bytes = 32764;
#endif

public:
    static constexpr std::size_t capacity = (bytes - 16) / (sizeof(Work) + sizeof(std::uint32_t));
    static_assert(capacity != 0, "gradstep: thrust_backend: the scalars of the rule do not fit into the arguments of a "
                                 "kernel; expected a smaller `coeffs`");

    work_table() {}
    bool has_room_for(Work const& work) const { return size_ != capacity && lots_of(work) <= UINT32_MAX - end_; }
    void push_back(Work const& work) {
        new (works_ + size_) Work(work);
        first_[size_++] = end_;
        end_ += static_cast<std::uint32_t>(lots_of(work));
    }
    void clear() { size_ = end_ = 0; }
    std::span<Work> works() { return {works_, size_}; }
    std::size_t traffic() const requires requires(Work const& one) { one.traffic(); }
    {
        std::size_t sum = 0;
        for (std::size_t k = 0; k != size_; ++k) sum += works_[k].traffic();
        return sum;
    }
    void set_cached(bool cached) {
        for (Work& one : works()) one.set_cached(cached);
    }

    std::uint32_t lots() const { return end_; }
#if defined(__CUDACC__)
#pragma nv_exec_check_disable // blocks run on the host only
#endif
    // Runs index i of an existing lot.
    GRADSTEP_HD void operator()(std::size_t lot, std::size_t i) const {
        std::uint32_t low = 0, high = size_; // the tensor is in [low, high)
        while (high - low > 1) {
            std::uint32_t const middle = low + (high - low) / 2;
            if (first_[middle] <= lot) low = middle;
            else high = middle;
        }
        i += (lot - first_[low]) * Work::lot;
        if (i < works_[low].count()) works_[low](i);
    }

private:
    static std::size_t lots_of(Work const& work) { return (work.count() + Work::lot - 1) / Work::lot; }

    union {
        Work works_[capacity];
    };
    std::uint32_t first_[capacity];
    std::uint32_t size_ = 0, end_ = 0;
};
#if defined(__CUDACC__)
// Not with Thrust: its kernels copy their arguments to each thread's memory if an index reads from
// them.
template <class Work>
__global__ void __launch_bounds__(Work::lot) run_table(__grid_constant__ work_table<Work> const table) {
    table(blockIdx.x, threadIdx.x);
}
#endif

// Work on any number of tensors that waits to be launched; work of one type is launched together.
template <class Backend> class waiting_work {
    struct table_base {
        // The mark of table<Work>. With type_id_of, nvcc would warn about rules that have no name
        // outside their file.
        void const* const type;
        explicit table_base(void const* of) : type(of) {}
        virtual ~table_base() = default;
        virtual void launch(Backend const&) = 0;
        virtual void clear() = 0;
    };
    template <class Work> struct table final : table_base {
        static inline char mark = 0;
        work_table<Work> works;
        table() : table_base(&mark) {}
        void launch(Backend const& on) override {
            if (works.works().size() == 1) on.launch(works.works()[0]);
            else if (works.lots() != 0) on.launch(works);
            works.clear();
        }
        void clear() override { works.clear(); }
    };

public:
    // If the work does not fit, launches the waiting work first, or the new work at once.
    template <class Work> void add(Backend const& on, Work& work) {
        if (work.count() == 0) return;
        table<Work>* const waiting = table_of<Work>();
        if (waiting != nullptr && !waiting->works.has_room_for(work)) waiting->launch(on);
        if (waiting != nullptr && waiting->works.has_room_for(work)) waiting->works.push_back(work);
        else on.launch(work);
    }
    void launch_all(Backend const& on) {
        for (auto const& one : tables_)
            if (one != nullptr) one->launch(on);
    }
    void clear() {
        for (auto const& one : tables_)
            if (one != nullptr) one->clear();
    }

private:
    // Null if there is no memory, or if there are too many types: the step has begun and must not
    // throw now.
    template <class Work> table<Work>* table_of() {
        for (auto& one : tables_) {
            if (one == nullptr) one.reset(new (std::nothrow) table<Work>);
            if (one == nullptr || one->type == &table<Work>::mark) return static_cast<table<Work>*>(one.get());
        }
        return nullptr;
    }

    std::array<std::unique_ptr<table_base>, 16> tables_;
};

#if defined(__CUDACC__)
// Memory in blocks of 2^k bytes, each allocated by itself: by default, Thrust's pools allocate 16
// blocks at once, and keep each size that was larger than all before.
inline thrust::mr::pool_options single_blocks() {
    thrust::mr::pool_options out{};
    out.min_blocks_per_chunk = out.max_blocks_per_chunk = 1;
    out.smallest_block_size = out.alignment = 256;
    out.largest_block_size = out.max_bytes_per_chunk = std::size_t(1) << 32;
    out.min_bytes_per_chunk = 1;
    out.cache_oversized = true;
    out.cached_size_cutoff_factor = out.cached_alignment_cutoff_factor = 16;
    return out;
}
#endif

// The scratch memory of a call. One call uses it at a time. Its launches finish, on its stream,
// before the launches of the next call begin.
template <class Backend> struct thrust_scratch {
    waiting_work<Backend> waiting;
    typename Backend::template buffer<std::uint64_t> blocks, result; // see memory_of
#if defined(__CUDACC__)
    // What Thrust's algorithms borrow. They give it back before their kernels have run.
    thrust::mr::disjoint_unsynchronized_pool_resource<thrust::system::cuda::memory_resource,
                                                      thrust::mr::new_delete_resource>
        borrowed{single_blocks()};
#endif
    std::thread::id of = {}; // if each thread has its own stream
    int device = 0;          // of CUDA, where the memory is
    std::unique_ptr<thrust_scratch> next;
};

// Memory for n objects that are written before they are read; it grows and never shrinks.
template <class T, class Buffer> T* memory_of(Buffer& memory, std::size_t n) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::uint64_t));
    std::size_t const words = (n * sizeof(T) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    if (memory.size() < words) memory = Buffer(words + words / 2);
    return reinterpret_cast<T*>(traits_of<Buffer>::data(memory));
}

// The free scratch memory of a backend and its copies.
template <class Backend> class scratch_list {
    using scratch = thrust_scratch<Backend>;
    struct give_back {
        scratch_list* to;
        void operator()(scratch* one) const {
            one->waiting.clear(); // if a launch has thrown
            std::lock_guard const lock(to->mutex_);
            one->next = std::move(to->first_);
            to->first_.reset(one);
        }
    };

public:
    using loan = std::unique_ptr<scratch, give_back>;
    // Null if there is no memory.
    loan take(std::thread::id of, int device) {
        {
            std::lock_guard const lock(mutex_);
            for (std::unique_ptr<scratch>* at = &first_; *at != nullptr; at = &(*at)->next)
                if ((*at)->of == of && (*at)->device == device) {
                    scratch* const found = at->release();
                    *at = std::move(found->next);
                    return loan(found, {this});
                }
        }
        scratch* const made = new (std::nothrow) scratch;
        if (made != nullptr) {
            made->of = of;
            made->device = device;
        }
        return loan(made, {this});
    }

private:
    std::mutex mutex_;
    std::unique_ptr<scratch> first_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
