#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/core/buffer.hpp>
#include <gradstep/core/huge_pages.hpp>
#include <gradstep/sparse/matrix.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// Products of the steps over blocks of 1, 2, 4, ... steps. Any range is then a product of O(log
// length) blocks. Inverses of prefix products would be O(1), but would lose all digits. Block
// provides `later * earlier`.
template <class Block, template <class> class Buffer> class dyadic_ring {
public:
    struct view_type {
        Block const* blocks;
        std::uint64_t capacity;

        // Step t, from 0.
        GRADSTEP_HD Block operator[](std::uint64_t t) const { return blocks[place(capacity, 0, t)]; }
        // The product of steps [begin, end), in their order.
        GRADSTEP_HD Block product(std::uint64_t begin, std::uint64_t end, Block const& one) const {
            Block early = one, late = one;
            for (std::uint32_t level = 0; begin < end; ++level, begin /= 2, end /= 2) {
                if (begin % 2 != 0) early = blocks[place(capacity, level, begin++)] * early;
                if (end % 2 != 0) late = late * blocks[place(capacity, level, --end)];
            }
            return late * early;
        }
    };

    explicit dyadic_ring(std::uint64_t capacity) : blocks_(2 * capacity), capacity_(capacity) {}

    view_type view() const { return {traits_of<decltype(blocks_)>::data(blocks_), capacity_}; }
    std::uint64_t capacity() const { return capacity_; }
    Block at(std::uint64_t t) const { return blocks_[place(capacity_, 0, t)]; }
    // Writes step t, from 0, and every block that it completes.
    void put(std::uint64_t t, Block b) {
        for (std::uint32_t level = 0; (capacity_ >> level) != 0; ++level, t /= 2) {
            blocks_[place(capacity_, level, t)] = b;
            if (t % 2 == 0) {
                open_[level] = b;
                return;
            }
            b = b * open_[level];
            if constexpr (requires { b.center(); }) b.center();
        }
    }

private:
    // Level k contains the blocks of 2^k steps, capacity / 2^k of them, after the blocks of lower
    // levels.
    static GRADSTEP_HD std::uint64_t place(std::uint64_t capacity, std::uint32_t level, std::uint64_t index) {
        std::uint64_t const blocks = capacity >> level;
        return 2 * (capacity - blocks) + (index & (blocks - 1));
    }

    Buffer<Block> blocks_;
    std::array<Block, 64> open_ = {}; // on each level, the first half of the incomplete block
    std::uint64_t capacity_;
};

template <class T> using host_memory_of = std::vector<T, huge_page_allocator<T>>;

// Steps that map (w, slots) by a matrix, and the sum of the weights after each of them, as a linear
// function of w and the slots.
template <std::size_t N> struct summed_steps {
    matrix<N> all;
    double sum[N];

    static summed_steps none() { return {matrix<N>::identity(), {}}; }
    static summed_steps one(matrix<N> const& step) {
        summed_steps out{step, {}};
        for (std::size_t k = 0; k < N; ++k) out.sum[k] = step.value(0, k);
        return out;
    }
    void center() { all.center(); }
    friend summed_steps operator*(summed_steps const& later, summed_steps const& earlier) {
        summed_steps out{later.all * earlier.all, {}};
        for (std::size_t k = 0; k < N; ++k) {
            out.sum[k] = earlier.sum[k];
            for (std::size_t j = 0; j < N; ++j)
                out.sum[k] = std::fma(later.sum[j], earlier.all.value(j, k), out.sum[k]);
        }
        return out;
    }
};

// Sums over ranges of steps in O(log length). Stores a sum for every 64 steps, which is little
// memory, and uses single steps for the rest at both ends. On the host.
template <std::size_t N> class sums_of_steps {
    static constexpr std::uint64_t chunk = 64;
    using ring = dyadic_ring<summed_steps<N>, host_memory_of>;

public:
    struct view_type {
        typename ring::view_type chunks;

        // The sum over steps [begin, end), from 0; step_at(t) is the matrix of step t.
        template <class F>
        std::array<double, N> operator()(std::uint64_t begin, std::uint64_t end, F const& step_at) const {
            auto const none = summed_steps<N>::none();
            auto total = none;
            auto const one_by_one = [&](std::uint64_t to) {
                for (; begin < to; ++begin) total = summed_steps<N>::one(step_at(begin)) * total;
            };
            one_by_one(std::min(end, (begin + chunk - 1) / chunk * chunk));
            if (std::uint64_t const last = end / chunk * chunk; begin < last) {
                total = chunks.product(begin / chunk, last / chunk, none) * total;
                begin = last;
            }
            one_by_one(end);
            return std::to_array(total.sum);
        }
    };

    explicit sums_of_steps(std::uint64_t capacity) : chunks_(std::max<std::uint64_t>(1, capacity / chunk)) {}

    view_type view() const { return {chunks_.view()}; }
    // Adds step t, from 0. A run that resumes in the middle of a chunk does not need this chunk.
    void put(std::uint64_t t, matrix<N> const& step) {
        open_ = summed_steps<N>::one(step) * open_;
        if (t % chunk != chunk - 1) return;
        chunks_.put(t / chunk, open_);
        open_ = summed_steps<N>::none();
    }

private:
    ring chunks_;
    summed_steps<N> open_ = summed_steps<N>::none();
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
