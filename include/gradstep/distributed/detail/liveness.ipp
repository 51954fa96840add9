#pragma once
#include <gradstep/distributed/communicator.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE liveness::liveness(std::size_t workers, std::chrono::milliseconds timeout)
    : timeout_(timeout), wait_(std::max(timeout / 16, std::chrono::milliseconds(1))), last_seen_(workers, clock::now()),
      next_check_(clock::now() + wait_), next_sign_(clock::now() + timeout / 4) {}

GRADSTEP_DEFINE void liveness::note_alive(std::size_t worker, clock::time_point now) {
    if (worker < last_seen_.size()) last_seen_[worker] = now;
}

GRADSTEP_DEFINE void liveness::add_busy_time(clock::duration time) {
    for (auto& last : last_seen_) last += time;
}

GRADSTEP_DEFINE bool liveness::begin_check(clock::time_point now) {
    next_check_ = now + wait_;
    if (now <= next_sign_) return false;
    next_sign_ = now + timeout_ / 4;
    return true;
}

GRADSTEP_DEFINE void liveness::check(server_protocol const& of, clock::time_point now) const {
    std::vector<int> late, all;
    bool everyone = true;
    for (std::size_t w = 0; w != last_seen_.size(); ++w) {
        if (of.has_stopped(w)) continue;
        all.push_back(of.rank_of(w));
        if (now - last_seen_[w] <= timeout_) everyone = false;
        else if (!of.is_waiting(w)) late.push_back(of.rank_of(w));
    }
    if (!late.empty()) refuse_wait(of.rank(), "the server", timeout_, late);
    if (everyone && !all.empty()) refuse_wait(of.rank(), "the server: the workers wait for each other", timeout_, all);
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
