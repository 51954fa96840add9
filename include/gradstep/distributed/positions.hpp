#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/state/saved_state.hpp>

// How far a server is in what its workers send. The pushes and barriers of a worker have positions:
// 1, 2, and so on.
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
    void receive(std::uint64_t position);
    void receive_to_wait(std::uint64_t position);
    void apply(std::uint64_t position);
    // Where `durably`, checkpoints are written.
    void come_to_barrier(std::uint64_t position, std::uint64_t request, bool durably);
    // Of the barriers that were received, those up to a position.
    std::uint64_t barriers_up_to(std::uint64_t position) const;
    // It computes again what was not applied.
    void begin_anew(std::uint64_t new_session);
};

// What a checkpoint has of them beside the parameters.
struct server_positions {
    static constexpr char const* name = "gradstep.server";
    std::vector<std::uint64_t> of_workers;    // applied, barriers, stopped
    std::vector<std::uint64_t> of_parameters; // applied of each worker, by served parameters
    std::size_t workers;
    int rank, servers;

    std::string rule() const;
    gradstep::detail::saved_state state() const;
    void add(worker_positions const& of);
    worker_positions of_worker(std::size_t number) const;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/positions.ipp>
#endif
