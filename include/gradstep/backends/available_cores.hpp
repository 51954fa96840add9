#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <gradstep/base/instruction_set.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Reads a small file of the system. Returns "" if it cannot be read.
std::string small_file(std::string const& path);
// Removes the first word and the blanks after it from a text, and returns the word.
std::string_view next_word(std::string_view& text);
// Reads a number of decimal digits. Returns 0 for other words ("max", "-1") and for numbers that
// are too large for a quota.
std::uint64_t digits_of(std::string_view word);

// The number of cores that the CPU quotas of a control group and its parent groups allow, rounded
// up. 0: there is no quota. `groups` is the text of /proc/self/cgroup. `root` is the folder where
// the hierarchies are mounted.
std::size_t cores_of_quota(std::string_view groups, std::string const& root);
// The processors that the calling thread may run on.
std::size_t cores_of_affinity();
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// Returns the number of cores that this process may use, at least 1. This is the number of
/// processors in the calling thread's affinity mask (`taskset`, `mpirun --bind-to core`). The CPU
/// quotas of its control group and the parent groups, rounded up, limit the number (containers;
/// cgroup v1 and v2). Each call reads a few files of the system.
std::size_t available_cores();
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/backends/available_cores.ipp>
#endif
