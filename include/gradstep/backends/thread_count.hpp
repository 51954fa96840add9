#pragma once
#include <concepts>
#include <string>
#include <utility>

#include <gradstep/core/error.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// A user's number of threads. OpenMP and TBB take 0, which leaves the number to them. 65535 is more than machines have:
// beyond, OpenMP ends the process when the system gives no more threads, and TBB reserves memory for each.
template <std::integral Count> int thread_count(char const* executor, Count threads, int least = 0) {
    if (std::cmp_less(threads, least) || std::cmp_greater(threads, 65535))
        detail::fail<value_error>(std::string(executor) + ": threads = " + text(threads) + ": must be in [" +
                                  text(least) + ", 65535]");
    return static_cast<int>(threads);
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
