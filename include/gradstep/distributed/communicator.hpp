#pragma once
#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>

// What moves bytes between the ranks of a job: distributed/threads.hpp has ranks that are threads
// of one process, distributed/mpi.hpp processes under MPI. Another engine needs the members of
// `communicator`, and no more; for servers and workers those of `messenger` are enough. What is
// added up, in which order and in which arithmetic, is the same on all of them
// (distributed/collectives.hpp).
namespace gradstep::distributed {

/// Ranks that did not take part; the text names them, what was waited for, and how long. What was
/// waited for has not happened on this rank; those that were in time may have done it. It may be
/// waited for again, by the same call; a rank that does not do so must end, and with it the job.
struct rank_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
};

/// Bytes that one rank has sent to another.
struct message {
    /// The rank that they come `from`, and the `bytes`.
    int from;
    std::vector<std::byte> bytes;
};

/// How long whatever waits for another rank waits by default, before it is a rank_error.
inline constexpr std::chrono::milliseconds default_timeout{60'000};

inline namespace GRADSTEP_ABI {

/// What carries messages between ranks, numbered from 0:
///
///     rank(), size()     this rank, and how many there are
///     timeout()          how long to wait for another rank before that is a rank_error
///     send(to, bytes)    queued: never waits for the receiver. Between two ranks the order is kept; a rank may send to itself
///     receive(wait)      the next message, from whichever rank; nothing if none comes in time, and 0 does not wait
///
/// Calls may come from several threads of a rank where allows_threads() says so. An engine may have
/// reuse(bytes) too, which is given the memory of a message that nobody needs any more, for the
/// next one of about that length.
template <class M>
concept messenger = requires(M& m, M const& c, int to, std::vector<std::byte> bytes, std::chrono::milliseconds wait) {
    { c.rank() } -> std::same_as<int>;
    { c.size() } -> std::same_as<int>;
    { c.timeout() } -> std::same_as<std::chrono::milliseconds>;
    { c.allows_threads() } -> std::same_as<bool>;
    m.send(to, std::move(bytes));
    { m.receive(wait) } -> std::same_as<std::optional<message>>;
};

/// An exchange that has begun: test() moves it on and says whether all is there, without waiting;
/// missing() names the ranks that it waits for. It throws rank_error where one of them is known to
/// be dead.
template <class E> concept pending_exchange = requires(E& e, E const& c) {
    { e.test() } -> std::same_as<bool>;
    { c.missing() } -> std::same_as<std::vector<int>>;
};

/// A messenger whose ranks also exchange pieces of memory, all with all: exchange(channel, to,
/// from) begins to send to[r] to each rank r, and to receive from[r] from it; the own piece is
/// copied. Both have size() pieces, whose memory stays until the exchange has ended or its object
/// has gone. An engine that may go on reading or writing them after that has a member keep(memory)
/// of the begun exchange, which takes a std::shared_ptr<void const> and lets go of it when that is
/// over. An empty piece is sent like others, so that an exchange of nothing is a barrier. Every
/// rank begins the exchanges of one channel in the same order; channels, 0 to 2^30 - 1, know
/// nothing of each other. A piece of another length than its receiver expects is a value_error that
/// names both.
template <class C>
concept communicator = messenger<C> && requires(C& c, int channel, std::span<std::span<std::byte const> const> to,
                                                std::span<std::span<std::byte> const> from) {
    { c.exchange(channel, to, from) } -> pending_exchange;
};

/// What `exchange` of a communicator returns.
template <communicator C>
using exchange_of = decltype(std::declval<C&>().exchange(0, std::declval<std::span<std::span<std::byte const> const>>(),
                                                         std::declval<std::span<std::span<std::byte> const>>()));
} // namespace GRADSTEP_ABI

namespace detail {
inline namespace GRADSTEP_ABI {

using gradstep::detail::fail;

// "rank 1, rank 3".
[[gnu::cold]] std::string ranks_as_text(std::vector<int> const& ranks);
[[noreturn, gnu::cold]] void refuse_wait(int rank, std::string_view what, std::chrono::milliseconds waited,
                                         std::vector<int> const& missing);
[[noreturn, gnu::cold]] void refuse_dead(int rank, std::string_view what, int dead);
void check_rank(std::string_view call, int rank, int size);
void check_pieces(int channel, std::size_t to, std::size_t from, int size);
[[noreturn, gnu::cold]] void refuse_piece(int rank, int from, std::size_t sent, std::size_t expected);

template <messenger M> void reuse([[maybe_unused]] M& by, [[maybe_unused]] std::vector<std::byte> bytes) {
    if constexpr (requires { by.reuse(std::move(bytes)); }) by.reuse(std::move(bytes));
}

// Where an engine may read or write the pieces for longer than the exchange lives, their memory
// stays for as long.
template <pending_exchange E>
void keep([[maybe_unused]] E& begun, [[maybe_unused]] std::shared_ptr<void const> memory) {
    if constexpr (requires { begun.keep(std::move(memory)); }) begun.keep(std::move(memory));
}

class deadline {
public:
    explicit deadline(std::chrono::milliseconds wait) : at_(std::chrono::steady_clock::now() + wait) {}
    bool has_passed() const { return std::chrono::steady_clock::now() >= at_; }

private:
    std::chrono::steady_clock::time_point at_;
};

// What a thread does between two looks: it offers its core for as long as something that is on its
// way takes, then sleeps for as long as nobody notices.
class idle_time {
public:
    void begin_anew() { looks_ = 0; }
    void pass();

private:
    int looks_ = 0;
};

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// Waits until what has begun, an exchange or a collective, has ended, for as long as the
/// communicator's timeout says; then a rank_error says which ranks are missing, and `what` was
/// waited for.
template <messenger M, pending_exchange E> void finish(M const& by, E& begun, std::string_view what) {
    detail::deadline const until(by.timeout());
    for (detail::idle_time idle; !begun.test(); idle.pass())
        if (until.has_passed()) detail::refuse_wait(by.rank(), what, by.timeout(), begun.missing());
}

} // namespace GRADSTEP_ABI
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/communicator.ipp>
#endif
