#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// The rows of a keyed table that were evicted, for replicas: all since a step, in the order of the
// steps.
struct eviction_log {
    struct entry {
        std::int64_t step;
        std::uint64_t key;
    };

    std::int64_t since = 0;
    std::vector<entry> entries;

    // Room for so many further ones. Throws std::bad_alloc, std::length_error.
    void reserve(std::size_t more);
    // Where there would be more than `most`, all but half as many of the last go at once, so that on average each is moved once.
    void forget(std::size_t more, std::size_t most) noexcept;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/keyed/eviction_log.ipp>
#endif
