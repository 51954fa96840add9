#pragma once

#include <gradstep/number/coded_block.hpp>
#include <gradstep/number/detail/reduce.hpp>

namespace gradstep::distributed::inline GRADSTEP_ABI {
GRADSTEP_DEFINE shard shard_of_rank(std::size_t elements, int ranks, int rank) {
    using gradstep::detail::block_count, gradstep::detail::block_size;
    static_assert(block_size % coded_block::length == 0, "shards divide no block of state (block8)");
    std::size_t const p = static_cast<std::size_t>(ranks), each = (block_count(elements) + p - 1) / p * block_size,
                      at = static_cast<std::size_t>(rank);
    return {std::min(elements, each * at), std::min(elements, each * (at + 1))};
}
} // namespace gradstep::distributed::inline GRADSTEP_ABI
