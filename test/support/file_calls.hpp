#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

// Where the calls by which files are written can be replaced for the program (file_calls.cpp).
#if defined(__linux__)
#define REPLACES_FILE_CALLS 1
#endif

/// What happens at the one of open, write, fchmod, fsync, close and rename before which so many
/// have been done since then.
enum class interruption {
    failure,    ///< it fails, for want of room on the disk
    death,      ///< the process ends there
    half_death, ///< the same where half of it is written
};
struct interrupted_call {
    std::atomic<std::size_t> calls_before = SIZE_MAX; ///< none is interrupted at SIZE_MAX, which a failure leaves here
    std::atomic<interruption> by = interruption::failure;
};
extern interrupted_call interrupted;
/// The exit status of a process that ended so.
inline constexpr int status_of_death = 77;
