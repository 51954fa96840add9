#pragma once
#include <vector>

#include <gradstep/memory/buffer.hpp>
#include <gradstep/memory/huge_pages.hpp>
#include <gradstep/rows/detail/matrix.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Products of the steps over blocks of 1, 2, 4, ... steps. Any range is then a product of O(log
// length) blocks. Inverses of prefix products would be O(1), but would lose all digits. Block
// provides `later * earlier`.
template <class Block, template <class> class Buffer> class dyadic_ring {
public:
    struct view_type {
        Block const* blocks;
        std::uint64_t capacity;

        // Step t, from 0.
        GRADSTEP_HD Block operator[](std::uint64_t t) const { return blocks[index_of(capacity, 0, t)]; }
        // The product of steps [begin, end), in their order.
        GRADSTEP_HD Block product(std::uint64_t begin, std::uint64_t end, Block const& one) const {
            Block early = one, late = one;
            for (std::uint32_t level = 0; begin < end; ++level, begin /= 2, end /= 2) {
                if (begin % 2 != 0) early = blocks[index_of(capacity, level, begin++)] * early;
                if (end % 2 != 0) late = late * blocks[index_of(capacity, level, --end)];
            }
            return late * early;
        }
    };

    explicit dyadic_ring(std::uint64_t capacity) : blocks_(2 * capacity), capacity_(capacity) {}

    view_type view() const { return {traits_of<decltype(blocks_)>::data(blocks_), capacity_}; }
    std::uint64_t capacity() const { return capacity_; }
    Block at(std::uint64_t t) const { return blocks_[index_of(capacity_, 0, t)]; }
    // Writes step t, from 0, and every block that it completes.
    void put(std::uint64_t t, Block b) {
        for (std::uint32_t level = 0; (capacity_ >> level) != 0; ++level, t /= 2) {
            blocks_[index_of(capacity_, level, t)] = b;
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
    static GRADSTEP_HD std::uint64_t index_of(std::uint64_t capacity, std::uint32_t level, std::uint64_t index) {
        std::uint64_t const blocks = capacity >> level;
        return 2 * (capacity - blocks) + (index & (blocks - 1));
    }

    Buffer<Block> blocks_;
    std::array<Block, 64> open_ = {}; // on each level, the first half of the incomplete block
    std::uint64_t capacity_;
};

template <class T> using host_memory_of = std::vector<T, huge_page_allocator<T>>;
} // namespace gradstep::detail::inline GRADSTEP_ISA
