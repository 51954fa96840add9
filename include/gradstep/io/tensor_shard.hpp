#pragma once
#include <cstdint>

namespace gradstep {

/// The part of a tensor that one of several ranks has: its elements from `first` on, of the `size` of the whole. Files carry it, and
/// are refused by another rank or another number of ranks (model::set_shard).
struct tensor_shard {
    std::int64_t rank = 0, ranks = 1;
    std::uint64_t first = 0, size = 0;

    friend bool operator==(tensor_shard const&, tensor_shard const&) = default;
};

} // namespace gradstep
