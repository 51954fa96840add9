#pragma once

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void worker_positions::receive(std::uint64_t position) {
    received = std::max(received, position);
    applied = open.empty() ? received : open.front() - 1;
}

GRADSTEP_DEFINE void worker_positions::receive_to_wait(std::uint64_t position) {
    open.push_back(position);
    receive(position);
}

GRADSTEP_DEFINE void worker_positions::apply(std::uint64_t position) {
    std::erase(open, position);
    receive(position);
}

GRADSTEP_DEFINE void worker_positions::come_to_barrier(std::uint64_t position, std::uint64_t request, bool durably) {
    if (position > received) {
        receive(position);
        ++barriers;
        // A restarted worker does not reach these barriers again.
        std::erase_if(barriers_at, [behind = durably ? durable : applied](std::uint64_t at) { return at <= behind; });
        barriers_at.push_back(position);
    }
    waits_for = barriers_up_to(position);
    barrier = request;
}

GRADSTEP_DEFINE std::uint64_t worker_positions::barriers_up_to(std::uint64_t position) const {
    auto const later = std::upper_bound(barriers_at.begin(), barriers_at.end(), position);
    return barriers - static_cast<std::uint64_t>(barriers_at.end() - later);
}

GRADSTEP_DEFINE void worker_positions::begin_anew(std::uint64_t new_session) {
    session = new_session;
    waits_for = 0;
    // The server does not know of barriers after a push that was not applied, and the worker does
    // not reach the barriers in the checkpoint again.
    barriers = barriers_up_to(applied);
    std::erase_if(barriers_at, [this](std::uint64_t at) { return at > applied || at <= durable; });
    open.clear();
    received = applied;
    asked = 0;
}

GRADSTEP_DEFINE std::string server_positions::rule() const {
    return "server " + gradstep::detail::text(rank) + " of " + gradstep::detail::text(servers);
}

GRADSTEP_DEFINE gradstep::detail::saved_state server_positions::state() const {
    gradstep::detail::saved_state out;
    out.name = name;
    out.element = "uint64";
    out.rule = rule();
    auto const bytes = [](std::vector<std::uint64_t> const& of) {
        return gradstep::detail::saved_chunk::of(std::as_bytes(std::span(of)));
    };
    out.add<std::uint64_t>("workers", workers, 3).chunks = {bytes(of_workers)};
    if (!of_parameters.empty())
        out.add<std::uint64_t>("applied", of_parameters.size() / workers, workers).chunks = {bytes(of_parameters)};
    return out;
}

GRADSTEP_DEFINE void server_positions::add(worker_positions const& of) {
    of_workers.insert(of_workers.end(), {of.applied, of.barriers_up_to(of.applied), of.stopped ? 1u : 0u});
}

GRADSTEP_DEFINE worker_positions server_positions::of_worker(std::size_t number) const {
    worker_positions out;
    out.applied = out.received = out.durable = of_workers[3 * number];
    out.barriers = of_workers[3 * number + 1];
    out.stopped = of_workers[3 * number + 2] != 0;
    return out;
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
