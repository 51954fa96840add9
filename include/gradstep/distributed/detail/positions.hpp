#pragma once
#include <gradstep/saved/saved_state.hpp>

// The progress of a server: which messages of each worker it has received, applied and saved. The
// pushes and barriers of a worker have the positions 1, 2, ...
namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// The progress in the messages of one worker.
struct worker_positions {
    std::uint64_t session = 0;
    std::uint64_t received = 0;  // all messages up to this position
    std::uint64_t applied = 0;   // all messages up to this position
    std::uint64_t durable = 0;   // the position in the checkpoint
    std::uint64_t asked = 0;     // 1 + the position after which the worker must send again
    std::uint64_t barriers = 0;  // the number received
    std::uint64_t barrier = 0;   // the request of the barrier where it waits
    std::uint64_t waits_for = 0; // the number of barriers that all others must reach; 0: does not wait
    std::uint64_t stop = 0;      // the request of its stop, until the answer
    bool stopped = false;
    std::vector<std::uint64_t> barriers_at; // the positions that it can reach again after a restart
    std::vector<std::uint64_t> open;        // positions received and not applied

    // Notes that everything up to a position is received. It is applied up to the first open
    // position.
    void receive(std::uint64_t position);
    void receive_to_wait(std::uint64_t position);
    void apply(std::uint64_t position);
    // `durably`: whether the server writes checkpoints.
    void come_to_barrier(std::uint64_t position, std::uint64_t request, bool durably);
    // The number of received barriers up to a position.
    std::uint64_t barriers_up_to(std::uint64_t position) const;
    // The worker has restarted, and computes again what was not applied.
    void begin_anew(std::uint64_t new_session);
};

// The positions in a checkpoint.
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
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/positions.ipp>
#endif
