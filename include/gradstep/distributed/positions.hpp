#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/state/saved_state.hpp>

// How far a server is in what its workers send. The pushes and barriers of a worker have positions: 1, 2, and so on.
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

// In what one worker sends.
struct worker_positions {
    std::uint64_t session = 0;
    std::uint64_t received = 0;  // up to this position
    std::uint64_t applied = 0;   // up to this position: all of them
    std::uint64_t durable = 0;   // what the checkpoint says of it
    std::uint64_t asked = 0;     // 1 and the position after which it was asked to send again
    std::uint64_t barriers = 0;  // received
    std::uint64_t barrier = 0;   // the request of the one that it waits at
    std::uint64_t waits_for = 0; // until all others have come to as many barriers; 0: for none
    std::uint64_t stop = 0;      // the request of its stop, until it is answered
    bool stopped = false;
    std::vector<std::uint64_t> barriers_at; // the positions of those that it may come to again, if it begins anew
    std::vector<std::uint64_t> open;        // positions that were received and not applied

    // Everything up to a position has come; it is applied up to the first of those that wait.
    void receive(std::uint64_t position) {
        received = std::max(received, position);
        applied = open.empty() ? received : open.front() - 1;
    }
    void receive_to_wait(std::uint64_t position) {
        open.push_back(position);
        receive(position);
    }
    void apply(std::uint64_t position) {
        std::erase(open, position);
        receive(position);
    }
    // Where `durably`, checkpoints are written.
    void come_to_barrier(std::uint64_t position, std::uint64_t request, bool durably) {
        if (position > received) {
            receive(position);
            ++barriers;
            // A worker that begins anew comes to none again of those that lie behind it for good.
            std::erase_if(barriers_at,
                          [behind = durably ? durable : applied](std::uint64_t at) { return at <= behind; });
            barriers_at.push_back(position);
        }
        waits_for = barriers_up_to(position);
        barrier = request;
    }
    // Of the barriers that were received, those up to a position.
    std::uint64_t barriers_up_to(std::uint64_t position) const {
        auto const later = std::upper_bound(barriers_at.begin(), barriers_at.end(), position);
        return barriers - static_cast<std::uint64_t>(barriers_at.end() - later);
    }
    // It computes again what was not applied.
    void begin_anew(std::uint64_t new_session) {
        session = new_session;
        waits_for = 0;
        // Of barriers after a push that was not applied it does not know, and those of the checkpoint lie behind it for good.
        barriers = barriers_up_to(applied);
        std::erase_if(barriers_at, [this](std::uint64_t at) { return at > applied || at <= durable; });
        open.clear();
        received = applied;
        asked = 0;
    }
};

// What a checkpoint has of them beside the parameters.
struct server_positions {
    static constexpr char const* name = "gradstep.server";
    std::vector<std::uint64_t> of_workers;    // applied, barriers, stopped
    std::vector<std::uint64_t> of_parameters; // applied of each worker, by served parameters
    std::size_t workers;
    int rank, servers;

    std::string rule() const {
        return "server " + gradstep::detail::text(rank) + " of " + gradstep::detail::text(servers);
    }
    gradstep::detail::saved_state state() const {
        gradstep::detail::saved_state out;
        out.name = name;
        out.element = "uint64";
        out.rule = rule();
        auto const bytes = [](std::vector<std::uint64_t> const& of) {
            return std::as_writable_bytes(std::span(const_cast<std::uint64_t*>(of.data()), of.size()));
        };
        out.add("workers", "U64", 8, workers, 3).pieces = {bytes(of_workers)};
        if (!of_parameters.empty())
            out.add("applied", "U64", 8, of_parameters.size() / workers, workers).pieces = {bytes(of_parameters)};
        return out;
    }
    void add(worker_positions const& of) {
        of_workers.insert(of_workers.end(), {of.applied, of.barriers_up_to(of.applied), of.stopped ? 1u : 0u});
    }
    worker_positions of_worker(std::size_t number) const {
        worker_positions out;
        out.applied = out.received = out.durable = of_workers[3 * number];
        out.barriers = of_workers[3 * number + 1];
        out.stopped = of_workers[3 * number + 2] != 0;
        return out;
    }
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed
