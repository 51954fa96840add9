#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <gradstep/base/error.hpp>

// Transports, which move bytes between the ranks of a job. In distributed/threads.hpp, the ranks
// are threads of one process; in distributed/mpi.hpp, they are processes under MPI. Another
// transport must model `communicator`, or only `messenger` for servers and workers. Sums have the
// same order and arithmetic on every transport (distributed/collectives.hpp).
namespace gradstep::distributed {
/// Other ranks did not respond in time. The message contains these ranks, the operation, and the
/// waiting time. The operation has not happened on this rank, but it may have happened on other
/// ranks. You can repeat the call to wait again. If a rank does not repeat the call, it must exit,
/// and the job must end.
struct rank_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "rank_failed"; }
};

/// Bytes that one rank has sent to another.
struct message {
    /// The rank of the sender, and the bytes.
    int from;
    std::vector<std::byte> bytes;
};

/// How long an operation waits for another rank by default, before it throws rank_error.
inline constexpr std::chrono::milliseconds default_timeout{60'000};
} // namespace gradstep::distributed

namespace gradstep::distributed::inline GRADSTEP_ABI {
/// A transport for messages between ranks, which are numbered from 0:
///
///     rank(), size()     this rank, and the number of ranks
///     timeout()          how long to wait for another rank before rank_error
///     send(to, bytes)    queues a message; never waits for the receiver. Messages between two
///                        ranks stay in order. A rank can send to itself
///     receive(wait)      returns the next message from any rank, or nothing if none comes in time.
///                        With 0 it does not wait
///     allows_threads()   whether several threads of a rank can make calls concurrently
///
/// A transport can also have reuse(bytes): it gets the memory of messages that are no longer
/// needed, for later messages of similar length.
template <class M>
concept messenger = requires(M& m, M const& c, int to, std::vector<std::byte> bytes, std::chrono::milliseconds wait) {
    { c.rank() } -> std::same_as<int>;
    { c.size() } -> std::same_as<int>;
    { c.timeout() } -> std::same_as<std::chrono::milliseconds>;
    { c.allows_threads() } -> std::same_as<bool>;
    m.send(to, std::move(bytes));
    { m.receive(wait) } -> std::same_as<std::optional<message>>;
};

/// A pending exchange. test() advances it without waiting, and returns whether it is complete;
/// missing() returns the ranks that it waits for. test() throws rank_error if one of them is known
/// to be dead.
template <class E> concept pending_exchange = requires(E& e, E const& c) {
    { e.test() } -> std::same_as<bool>;
    { c.missing() } -> std::same_as<std::vector<int>>;
};

/// A messenger whose ranks can also exchange blocks of memory, all to all. exchange(channel, to,
/// from) begins to send to[r] to each rank r and to receive from[r] from it; the rank's own block
/// is copied. `to` and `from` have size() blocks. Their memory must stay until the exchange is
/// complete or its object is destroyed. A transport that can use the memory for longer has
/// keep(memory) in its pending exchange, which owns a std::shared_ptr<void const> until then. Empty
/// blocks are sent, too, so an exchange of empty blocks is a barrier. All ranks must begin the
/// exchanges of one channel in the same order; channels, 0 to 2^30 - 1, are independent. If a block
/// does not have the length that its receiver expects, the receiver throws value_error with both
/// lengths.
template <class C>
concept communicator = messenger<C> && requires(C& c, int channel, std::span<std::span<std::byte const> const> to,
                                                std::span<std::span<std::byte> const> from) {
    { c.exchange(channel, to, from) } -> pending_exchange;
};

/// What `exchange` of a communicator returns.
template <communicator C>
using exchange_of = decltype(std::declval<C&>().exchange(0, std::declval<std::span<std::span<std::byte const> const>>(),
                                                         std::declval<std::span<std::span<std::byte> const>>()));
} // namespace gradstep::distributed::inline GRADSTEP_ABI

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
using gradstep::detail::fail;

// "rank 1, rank 3".
[[gnu::cold]] std::string ranks_as_text(std::vector<int> const& ranks);
[[noreturn, gnu::cold]] void refuse_wait(int rank, std::string_view what, std::chrono::milliseconds waited,
                                         std::vector<int> const& missing);
[[noreturn, gnu::cold]] void refuse_dead(int rank, std::string_view what, int dead);
void check_rank(std::string_view call, int rank, int size);
void check_message_counts(int channel, std::size_t to, std::size_t from, int size);
[[noreturn, gnu::cold]] void refuse_message_size(int rank, int from, std::size_t sent, std::size_t expected);

template <messenger M> void reuse([[maybe_unused]] M& by, [[maybe_unused]] std::vector<std::byte> bytes) {
    if constexpr (requires { by.reuse(std::move(bytes)); }) by.reuse(std::move(bytes));
}

// If the transport can use the blocks for longer than the exchange exists, keeps their memory
// alive.
template <pending_exchange E>
void keep([[maybe_unused]] E& pending, [[maybe_unused]] std::shared_ptr<void const> memory) {
    if constexpr (requires { pending.keep(std::move(memory)); }) pending.keep(std::move(memory));
}

class deadline {
public:
    explicit deadline(std::chrono::milliseconds wait) : at_(std::chrono::steady_clock::now() + wait) {}
    bool has_passed() const { return std::chrono::steady_clock::now() >= at_; }

private:
    std::chrono::steady_clock::time_point at_;
};

// The pause of a thread between two polls. It yields for about as long as a message takes, then
// sleeps for times too short to add latency.
class idle_time {
public:
    void begin_anew() { looks_ = 0; }
    void pass();

private:
    int looks_ = 0;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

namespace gradstep::distributed::inline GRADSTEP_ABI {
/// Waits until a pending exchange or collective is complete. After the communicator's timeout it
/// throws rank_error, with the missing ranks and `what` it waited for.
template <messenger M, pending_exchange E> void finish(M const& by, E& pending, std::string_view what) {
    detail::deadline const until(by.timeout());
    for (detail::idle_time idle; !pending.test(); idle.pass())
        if (until.has_passed()) detail::refuse_wait(by.rank(), what, by.timeout(), pending.missing());
}
} // namespace gradstep::distributed::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/communicator.ipp>
#endif
