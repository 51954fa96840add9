#pragma once
#include <gradstep/base/error.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Checks a number of threads given by the user. 0 is valid for OpenMP and TBB, which then choose
// the number. The limit of 65535 exceeds any machine. Beyond it OpenMP ends the process when the
// system provides no more threads, and TBB reserves memory for each.
template <std::integral Count> int thread_count(char const* executor, Count threads, int least = 0) {
    if (std::cmp_less(threads, least) || std::cmp_greater(threads, 65535))
        detail::fail<value_error>({executor, ": threads"}, {threads, " is out of range"}, {"[", least, ", 65535]"});
    return static_cast<int>(threads);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
