#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradstep::distributed {
/// How a server applies the gradients of its workers.
enum class server_mode {
    synchronous,  ///< one step for one push of each worker: their mean, added up in the order of the ranks
    asynchronous, ///< one step for each push, when it arrives
    geo,          ///< as asynchronous, for the changes of weights that `geo_parameter` sends to `add_delta`
};

/// The options of a server. They must be equal on all servers of a job.
struct server_options {
    /// When the server applies a step: see server_mode.
    server_mode mode = server_mode::asynchronous;
    /// The number of servers: ranks 0 to num_servers - 1. All other ranks are workers.
    int num_servers = 1;
    /// A dense parameter with at least this many elements is split into shards, one for each
    /// server. A smaller one is on one server.
    std::size_t split_from = std::size_t{1} << 16;
    /// Whether the checksums of messages also cover the weights, in addition to headers and keys.
    /// Set it if your transport, unlike MPI, can deliver damaged data.
    bool check_elements = false;
    /// The number of this job, if a transport serves several jobs one after the other and its ranks
    /// can restart one by one: a higher number for each next job. Then a rank that restarts in
    /// another job than the others cannot mix with them. Jobs of one number can follow each other
    /// if ranks restart all together.
    std::uint32_t job = 0;
};

/// The options of one parameter on a server.
struct served_options {
    /// The lambda of delay compensation, for asynchronous mode only: corrects a stale gradient by
    /// lambda * g * g * (w - w_pulled). w_pulled is the weight that the worker last pulled (Zheng
    /// et al. 2017, equation 10; arXiv:1609.08326). lambda is in [0, infinity); 0 is no correction.
    /// The server then keeps a copy of the parameter for each worker. After a restart it has none
    /// until the worker's next pull.
    double delay_compensation = 0;
    /// The same as parameter_options.id; 0: a hash of the name.
    std::uint64_t id = 0;
};

/// A message to a rank.
struct outgoing {
    /// The rank of the receiver, and the bytes.
    int to;
    std::vector<std::byte> bytes;
};
} // namespace gradstep::distributed
