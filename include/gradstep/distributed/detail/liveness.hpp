#pragma once
#include <chrono>

#include <gradstep/distributed/detail/server_protocol.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// When a server has last heard of each worker. A worker that waits for nothing must send something
// within the timeout.
class liveness {
public:
    using clock = std::chrono::steady_clock;

    liveness(std::size_t workers, std::chrono::milliseconds timeout);

    // How long to wait for the next message.
    std::chrono::milliseconds wait() const { return wait_; }
    // A message has come; `worker` can be any number.
    void note_alive(std::size_t worker, clock::time_point now);
    // The server has done something else for so long, and messages lay unread meanwhile.
    void add_busy_time(clock::duration time);
    bool is_check_due(clock::time_point now) const { return now >= next_check_; }
    // Before a check: returns whether the server must show the workers that it is there.
    bool begin_check(clock::time_point now);
    // Throws rank_error for workers that are silent and do not wait, or if all workers wait for
    // each other.
    void check(server_protocol const& of, clock::time_point now) const;

private:
    std::chrono::milliseconds timeout_, wait_;
    std::vector<clock::time_point> last_seen_;
    clock::time_point next_check_, next_sign_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/liveness.ipp>
#endif
