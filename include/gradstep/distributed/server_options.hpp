#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradstep::distributed {

/// What a server does with the gradients of its workers.
enum class server_mode {
    synchronous,  ///< one step by the mean of one push of each worker, in the order of their ranks
    asynchronous, ///< one step by each push as it comes
    geo,          ///< the same with what `geo_parameter` sends: changes of weights, which `add_delta` adds
};

/// What a server does beyond its parameters. All servers of a job are given the same.
struct server_options {
    /// When a step is taken.
    server_mode mode = server_mode::asynchronous;
    /// Of the ranks, 0 to num_servers - 1 are servers, the others workers.
    int num_servers = 1;
    /// A dense parameter of so many elements and more is spread over all servers in pieces; a
    /// smaller one is on one of them.
    std::size_t split_from = std::size_t{1} << 16;
    /// Whether the checksums of messages cover the weights, too, beside headers and keys: for an
    /// engine that does not, as MPI does, deliver what was sent.
    bool check_elements = false;
};

/// What a server does with one parameter.
struct served_options {
    /// Asynchronous mode: a gradient that was computed at weights which have moved since is
    /// corrected by lambda g g (w - w then) (Zheng et al. 2017, equation 10; arXiv:1609.08326),
    /// lambda in [0, infinity). 0: it is not. It takes a copy of the parameter for each worker:
    /// what it has pulled last. After a restart of the server that is none, up to its next pull.
    double delay_compensation = 0;
    /// As parameter_options.id.
    std::uint64_t id = 0;
};

/// A message that goes to a rank.
struct outgoing {
    /// The rank, `to`, and the `bytes`.
    int to;
    std::vector<std::byte> bytes;
};

} // namespace gradstep::distributed
