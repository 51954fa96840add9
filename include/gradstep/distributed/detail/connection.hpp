#pragma once
#include <chrono>
#include <list>

#include <gradstep/distributed/detail/wire.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// What a worker knows of one server: how many of the worker's messages the server has applied, as
// positions (wire.hpp), and the messages that the worker may have to send again.
class connection {
public:
    using clock = std::chrono::steady_clock;
    struct sent {
        std::uint64_t position;
        std::vector<std::byte> bytes;
    };
    // A message before it is sent, with the list nodes that note_sent inserts, so that note_sent
    // does not throw.
    struct sending {
        std::vector<std::byte> bytes;
        std::list<std::uint64_t> in_flight;
        std::list<sent> kept;
    };

    // The time of the last message from the server.
    clock::time_point last_seen() const { return last_seen_; }
    void note_alive() { last_seen_ = clock::now(); }

    // The connection is closed from a hello until its welcome. number(): the random number of the
    // server's run, 0 before the first welcome. is_durable(): whether the server writes
    // checkpoints. knows_of_stop(): whether it knows that the worker has stopped.
    bool is_open() const { return open_; }
    void say_hello() { open_ = false; }
    std::uint64_t number() const { return number_; }
    bool is_durable() const { return durably_; }
    bool knows_of_stop() const { return knows_of_stop_; }
    void learn_of_stop() { knows_of_stop_ = true; }
    // Whether the worker has asked the server to stop.
    bool is_asked_to_stop() const { return is_asked_to_stop_; }
    void ask_to_stop() { is_asked_to_stop_ = true; }

    // Positions. previous(): the last one sent. received(): up to here the server had everything
    // (durably, if it writes checkpoints) when this worker started. forgotten(): up to here the
    // worker cannot send again. applied(): up to here the server has applied everything.
    std::uint64_t previous() const { return previous_; }
    std::uint64_t received() const { return received_; }
    std::uint64_t forgotten() const { return forgotten_; }
    std::uint64_t applied() const { return applied_; }
    bool has_unsaved() const { return durable_ < applied_; }
    // The positions that are not applied yet, and the messages that no checkpoint contains yet.
    std::list<std::uint64_t> const& in_flight() const { return in_flight_; }
    std::list<sent> const& kept() const { return kept_; }
    // The worker has sent messages up to `position` to all servers. Returns up to which position
    // this server has applied its share, and up to which a checkpoint contains it.
    std::uint64_t applied_of(std::uint64_t position) const;
    std::uint64_t durable_of(std::uint64_t position) const;

    // Whether the server has restarted and lost messages that the worker can no longer send.
    bool lost_messages(wire_header const& welcome) const { return number_ != 0 && welcome.sequence < forgotten_; }
    void accept_welcome(wire_header const& welcome);
    // Updates applied() and durable() from a message of the server, and drops what it needs no
    // more.
    void take_positions(wire_header const& h);
    // Prepares a message at a position after all others. note_sent keeps it as long as it may have
    // to be sent again.
    sending to_send(std::uint64_t position, std::vector<std::byte> bytes) const;
    void note_sent(sending& of) noexcept;

private:
    bool open_ = false, durably_ = false, knows_of_stop_ = false, is_asked_to_stop_ = false;
    clock::time_point last_seen_ = {};
    std::uint64_t number_ = 0, previous_ = 0, received_ = 0, forgotten_ = 0, applied_ = 0, durable_ = 0;
    std::list<std::uint64_t> in_flight_;
    std::list<sent> kept_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/connection.ipp>
#endif
