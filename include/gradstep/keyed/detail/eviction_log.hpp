#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The rows of a keyed table that were evicted, for replicas: all since a step, in the order of the
// steps.
struct eviction_log {
    struct entry {
        std::int64_t step;
        std::uint64_t key;
    };

    std::int64_t since = 0;
    std::vector<entry> entries;

    // Allocates memory for this many more. Throws std::bad_alloc, std::length_error.
    void reserve(std::size_t more);
    // If there would be more than `most` entries, drops all except the last most / 2 at once, so
    // that each entry is moved once on average.
    void forget(std::size_t more, std::size_t most) noexcept;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/keyed/detail/eviction_log.ipp>
#endif
