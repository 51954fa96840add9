#pragma once
#include <thread>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::string ranks_as_text(std::vector<int> const& ranks) {
    std::string out;
    for (int const r : ranks) out += (out.empty() ? "rank " : ", rank ") + gradstep::detail::text(r);
    return out;
}

GRADSTEP_DEFINE void refuse_wait(int rank, std::string_view what, std::chrono::milliseconds waited,
                                 std::vector<int> const& missing) {
    fail<rank_error>({"rank ", rank, ": ", what}, {ranks_as_text(missing), missing.size() == 1 ? " has" : " have",
                                                   " not taken part within ", waited.count(), " ms"});
}

GRADSTEP_DEFINE void refuse_dead(int rank, std::string_view what, int dead) {
    fail<rank_error>({"rank ", rank, ": ", what}, {"rank ", dead, " has ended and takes no part any more"});
}

GRADSTEP_DEFINE void check_rank(std::string_view call, int rank, int size) {
    if (rank < 0 || rank >= size) fail<value_error>({call}, {"there is no rank ", rank}, {"[0, ", size, ")"});
}

GRADSTEP_DEFINE void check_message_counts(int channel, std::size_t to, std::size_t from, int size) {
    if (channel < 0 || channel >= 1 << 30)
        fail<value_error>({"exchange: channel"}, {channel, " is out of range"}, {"[0, 2^30)"});
    if (to != static_cast<std::size_t>(size) || from != to)
        fail<size_error>({"exchange"}, {to, " messages to send and ", from, " to receive"},
                         {size, ", one for each rank"});
}

GRADSTEP_DEFINE void refuse_message_size(int rank, int from, std::size_t sent, std::size_t expected) {
    fail<value_error>({"rank ", rank, ": exchange"}, {"rank ", from, " has sent ", sent, " bytes"},
                      {expected, " bytes, the same from all ranks"});
}

GRADSTEP_DEFINE void idle_time::pass() {
    ++looks_;
    if (looks_ < 200) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(looks_ < 400 ? 20 : 200));
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
