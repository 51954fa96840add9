#pragma once
#include <cstdint>

namespace gradstep {
/// The shard of a tensor on one of several ranks. It begins at element `first`, and the whole
/// tensor has `size` elements. Checkpoints contain it. Another rank, or a job with another number
/// of ranks, rejects them (model::set_shard).
struct tensor_shard {
    std::int64_t rank = 0, ranks = 1;
    std::uint64_t first = 0, size = 0;

    friend bool operator==(tensor_shard const&, tensor_shard const&) = default;
};
} // namespace gradstep
