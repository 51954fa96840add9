#pragma once
#include <algorithm>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::uint64_t connection::applied_of(std::uint64_t position) const {
    return in_flight_.empty() ? position : in_flight_.front() - 1;
}

GRADSTEP_DEFINE std::uint64_t connection::durable_of(std::uint64_t position) const {
    return !durably_ ? 0 : kept_.empty() ? position : kept_.front().position - 1;
}

GRADSTEP_DEFINE void connection::accept_welcome(wire_header const& welcome) {
    bool const first = number_ == 0;
    number_ = welcome.request;
    open_ = true;
    durably_ = (welcome.flags & wire_flags::durable) != 0;
    knows_of_stop_ = (welcome.flags & wire_flags::stopped) != 0;
    applied_ = welcome.sequence;
    durable_ = welcome.previous;
    // A restarted worker computes again what no checkpoint contains. The server may need it, and
    // applies nothing twice.
    if (first) previous_ = forgotten_ = received_ = durably_ ? durable_ : applied_;
    take_positions(welcome);
    in_flight_.clear();
    for (sent const& one : kept_)
        if (one.position > applied_) in_flight_.push_back(one.position);
}

GRADSTEP_DEFINE void connection::take_positions(wire_header const& h) {
    applied_ = std::max(applied_, h.sequence);
    durable_ = std::max(durable_, h.previous);
    while (!in_flight_.empty() && in_flight_.front() <= applied_) in_flight_.pop_front();
    while (!kept_.empty() && kept_.front().position <= durable_) {
        forgotten_ = kept_.front().position;
        kept_.pop_front();
    }
}

GRADSTEP_DEFINE connection::sending connection::to_send(std::uint64_t position, std::vector<std::byte> bytes) const {
    sending out;
    out.in_flight.push_back(position);
    if (durably_) out.kept.push_back({position, bytes});
    out.bytes = std::move(bytes);
    return out;
}

GRADSTEP_DEFINE void connection::note_sent(sending& of) noexcept {
    previous_ = of.in_flight.front();
    if (!durably_) forgotten_ = previous_;
    in_flight_.splice(in_flight_.end(), of.in_flight);
    kept_.splice(kept_.end(), of.kept);
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
