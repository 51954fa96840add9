#pragma once
// How many threads a test runs with.
#include <cstddef>
#include <initializer_list>
#include <vector>

#include <gradstep/base/compiler.hpp>

/// All of `counts`, or under sanitizers, where a step takes ten times as long, only the last.
inline std::vector<std::size_t> thread_counts(std::initializer_list<std::size_t> counts) {
#if defined(GRADSTEP_SANITIZED)
    return {*(counts.end() - 1)};
#else
    return counts;
#endif
}
