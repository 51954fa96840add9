#pragma once
#include <atomic>
#include <cstddef>

#include "support/sanitizers.hpp"

// The address sanitizer has an operator new of its own.
#if !defined(UNDER_ADDRESS_SANITIZER)
#define COUNTS_ALLOCATIONS 1
#endif

/// How often the program has allocated since this was last set to 0; stays 0 unless
/// COUNTS_ALLOCATIONS is defined.
extern std::atomic<std::size_t> allocations;

/// How many bytes it has allocated since this was last set to 0; as `allocations`.
extern std::atomic<std::size_t> bytes_allocated;

/// The allocation before which so many succeed fails: it throws std::bad_alloc or, where it is to
/// throw nothing, returns null. None does at SIZE_MAX, which a failure leaves here. Memory that is
/// mapped counts as well.
extern std::atomic<std::size_t> allocations_until_failure;

/// Whether all that follow the one that fails do so too; `allocations_until_failure` is 0 then
/// until it is set anew.
extern std::atomic<bool> allocations_keep_failing;

/// How many have not been given back.
extern std::atomic<std::ptrdiff_t> allocations_held;
