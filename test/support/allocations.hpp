#pragma once
#include <atomic>
#include <cstddef>

/// How often the program has allocated since this was last set to 0, if one of its files replaces operator new to count
/// it. The address sanitizer has an operator new of its own, and the count stays 0.
extern std::atomic<std::size_t> allocations;

/// The allocation before which so many succeed throws std::bad_alloc, as does none at SIZE_MAX.
extern std::atomic<std::size_t> allocations_until_failure;
