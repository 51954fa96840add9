#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// Which rows of a keyed table were evicted, for those who take in its changes: all since a step, in the order of the steps.
struct eviction_log {
    struct entry {
        std::int64_t step;
        std::uint64_t key;
    };

    std::int64_t since = 0;
    std::vector<entry> entries;

    // Room for so many further ones. Throws std::bad_alloc, std::length_error.
    void reserve(std::size_t more) {
        if (entries.capacity() - entries.size() < more)
            entries.reserve(std::max(entries.size() + more, 2 * entries.capacity()));
    }
    // Where there would be more than `most`, all but half as many of the last go at once, so that on average each is moved once.
    void forget(std::size_t more, std::size_t most) noexcept {
        std::size_t const kept = most / 2;
        if (entries.size() + more <= most || entries.size() <= kept) return;
        auto const first = entries.end() - static_cast<std::ptrdiff_t>(kept);
        since = first[-1].step + 1;
        entries.erase(entries.begin(), first);
    }
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
