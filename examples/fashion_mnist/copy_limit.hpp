#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

/// Bytes read and written per second by the best of many std::memcpy between two buffers of
/// together `working_set` bytes, on one thread.
inline double copy_limit(std::size_t working_set) {
    std::vector<char> from(working_set / 2, 1), to(working_set / 2);
    double best = 1e9;
    for (int round = 0; round < 200; ++round) {
        auto const start = std::chrono::steady_clock::now();
        std::memcpy(to.data(), from.data(), from.size());
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        from[0] = to.back(); // the next copy depends on this one, so none is left out
    }
    return 2 * static_cast<double>(working_set / 2) / best;
}

/// The smallest memory that the working set fits in: "L1", "L2", "L3" or "RAM"; "?" where the
/// system does not tell.
inline std::string memory_level(std::size_t working_set) {
    struct level {
        char const* name;
        int key;
    };
    for (auto [name, key] :
         {level{"L1", _SC_LEVEL1_DCACHE_SIZE}, {"L2", _SC_LEVEL2_CACHE_SIZE}, {"L3", _SC_LEVEL3_CACHE_SIZE}}) {
        long const size = sysconf(key);
        if (size <= 0) return "?";
        if (working_set <= static_cast<std::size_t>(size)) return name;
    }
    return "RAM";
}
