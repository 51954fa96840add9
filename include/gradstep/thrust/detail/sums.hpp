#pragma once
/// Sums over a tensor on the Thrust backend, in the order of every sum in gradstep
/// (number/detail/reduce.hpp); thrust/backend.hpp includes it.
#include <cstring>

#include <gradstep/kernel/detail/row_wise.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A sum is a class with the types `part`, the sum of a column or of a block, and `total`, the sum
// of all blocks. `column(b, c)` returns the sum of column c of block b, `add(to, part)` adds to a
// part or to a total, and `finish(total)` is called once at the end.

// The sum of the squares of all elements times `scale`.
template <class S> struct squares {
    using part = double;
    using total = double;
    S const* x;
    std::size_t n;
    double scale;
    double* result;

    GRADSTEP_HD double column(std::size_t b, std::size_t c) const { return column_sum(x, n, b, c, scale); }
    GRADSTEP_HD static void add(double& to, double part) { to += part; }
    GRADSTEP_HD void finish(double all) const { *result = all; }
};

// The sums of a row-wise rule, from which it finalizes its step.
template <class Kernel, class Row> struct row_wise_sums {
    using part = typename block_sums<Kernel>::sums;
    using total = typename block_sums<Kernel>::totals;
    Kernel kernel;
    std::size_t n;
    Row row;
    gradstep::settled<typename Kernel::rule_type, typename Kernel::compute>* settled;

    GRADSTEP_HD part column(std::size_t b, std::size_t c) const {
        return block_sums<Kernel>::of_column(kernel, n, b, c);
    }
    template <class To> GRADSTEP_HD static void add(To& to, part const& x) { block_sums<Kernel>::add(to, x); }
    GRADSTEP_HD void finish(total const& all) const {
        Kernel settling = kernel;
        finalize(settling, all, n, row);
        *settled = settling.settled;
    }
};

// A block, by one thread.
template <class Sum> struct run_columns {
    Sum sum;
    typename Sum::part* blocks;
    GRADSTEP_HD void operator()(std::size_t b) const {
        typename Sum::part columns[block_columns];
        for (std::size_t c = 0; c < block_columns; ++c) columns[c] = sum.column(b, c);
        for (std::size_t apart = block_columns / 2; apart != 0; apart /= 2)
            for (std::size_t c = 0; c < apart; ++c) Sum::add(columns[c], columns[c + apart]);
        blocks[b] = columns[0];
    }
};
// The blocks in order, by one thread.
template <class Sum> struct run_blocks {
    Sum sum;
    typename Sum::part const* blocks;
    std::size_t count;
    GRADSTEP_HD void operator()(std::size_t) const {
        typename Sum::total all = {};
        for (std::size_t b = 0; b < count; ++b) Sum::add(all, blocks[b]);
        sum.finish(all);
    }
};
// A block of squares on a CPU.
template <class S> struct run_block_sum {
    std::span<S const> x;
    double scale;
    double* sums;
    void operator()(std::size_t block) const { sums[block] = block_sum(x, block, scale); }
};
// A block of a row-wise rule on a CPU.
template <class Kernel, class V> struct run_accumulate_block {
    Kernel kernel;
    std::size_t n;
    typename block_sums<Kernel>::sums* blocks;
    [[gnu::noinline]] void operator()(std::size_t b) const {
        blocks[b] = block_sums<Kernel>::template of_block<V>(kernel, n, b);
    }
};

#if defined(__CUDACC__)
inline constexpr unsigned warp = 32, threads_of_sums = 8 * warp;
static_assert(block_columns == warp);

// The object of the thread that is `apart` lanes further on.
template <class T> __device__ T from_lane_after(T const& x, unsigned apart) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(unsigned) == 0);
    unsigned words[sizeof(T) / sizeof(unsigned)];
    memcpy(words, &x, sizeof(T));
    for (unsigned& word : words) word = __shfl_down_sync(~0u, word, apart);
    T out;
    memcpy(&out, words, sizeof(T));
    return out;
}

// One warp for each block, one thread for each column.
template <class Sum>
__global__ void __launch_bounds__(threads_of_sums)
    add_columns(__grid_constant__ Sum const sum, typename Sum::part* blocks, std::size_t count) {
    std::size_t const b = (std::size_t(blockIdx.x) * threads_of_sums + threadIdx.x) / warp;
    if (b >= count) return;
    typename Sum::part part = sum.column(b, threadIdx.x % warp);
    for (unsigned apart = warp / 2; apart != 0; apart /= 2) Sum::add(part, from_lane_after(part, apart));
    if (threadIdx.x % warp == 0) blocks[b] = part;
}

// One thread adds the blocks in order. The others load the next ones meanwhile, since it would wait
// for each load.
template <class Sum>
__global__ void __launch_bounds__(threads_of_sums)
    add_blocks(__grid_constant__ Sum const sum, typename Sum::part const* blocks, std::size_t count) {
    using part = typename Sum::part;
    constexpr std::size_t lot = 16384 / sizeof(part);
    __shared__ alignas(part) unsigned char memory[2][lot * sizeof(part)];
    auto const half = [&](std::size_t of_lot) { return reinterpret_cast<part*>(memory[of_lot % 2]); };
    auto const load = [&](std::size_t of_lot, unsigned thread, unsigned threads) {
        std::size_t const first = of_lot * lot, end = first + lot < count ? first + lot : count;
        for (std::size_t b = first + thread; b < end; b += threads) half(of_lot)[b - first] = blocks[b];
    };
    typename Sum::total all = {};
    load(0, threadIdx.x, threads_of_sums);
    for (std::size_t at = 0; at * lot < count; ++at) {
        __syncthreads();
        if (threadIdx.x >= warp) {
            load(at + 1, threadIdx.x - warp, threads_of_sums - warp);
        } else if (threadIdx.x == 0) {
            std::size_t const size = count - at * lot < lot ? count - at * lot : lot;
#pragma unroll 8 // so that it waits for additions only
            for (std::size_t k = 0; k < size; ++k) Sum::add(all, half(at)[k]);
        }
    }
    if (threadIdx.x == 0) sum.finish(all);
}
#endif
} // namespace gradstep::detail::inline GRADSTEP_ISA
