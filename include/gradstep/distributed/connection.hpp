#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include <gradstep/distributed/wire.hpp>

namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

// What a worker knows of one server: how far that is in what the worker has sent to it, by its
// positions (wire.hpp), and what it may have to be sent again.
class connection {
public:
    using clock = std::chrono::steady_clock;
    struct sent {
        std::uint64_t position;
        std::vector<std::byte> bytes;
    };
    // What is about to be sent, with all that is to be noted of it, so that noting cannot fail.
    struct sending {
        std::vector<std::byte> bytes;
        std::list<std::uint64_t> in_flight;
        std::list<sent> kept;
    };

    // When something came last.
    clock::time_point last_seen() const { return last_seen_; }
    void note_alive() { last_seen_ = clock::now(); }

    // From a hello to its welcome there is no connection. Of the server: the number that it has
    // drawn when it began, 0 before the first welcome; whether it keeps checkpoints; whether it
    // knows that the worker has stopped.
    bool is_open() const { return open_; }
    void say_hello() { open_ = false; }
    std::uint64_t number() const { return number_; }
    bool is_durable() const { return durably_; }
    bool knows_of_stop() const { return knows_of_stop_; }
    void learn_of_stop() { knows_of_stop_ = true; }

    // The last position that was sent; that up to which the server had all for good when this
    // worker began; that up to which nothing can be sent again; that up to which all is applied.
    std::uint64_t previous() const { return previous_; }
    std::uint64_t received() const { return received_; }
    std::uint64_t forgotten() const { return forgotten_; }
    std::uint64_t applied() const { return applied_; }
    bool has_unsaved() const { return durable_ < applied_; }
    // What is not applied yet, and what is in no checkpoint yet.
    std::list<std::uint64_t> const& in_flight() const { return in_flight_; }
    std::list<sent> const& kept() const { return kept_; }
    // Up to where all that the worker has sent to any server, the last at `position`, is applied
    // here, and in a checkpoint.
    std::uint64_t applied_of(std::uint64_t position) const;
    std::uint64_t durable_of(std::uint64_t position) const;

    // Whether the server has begun anew without what was not kept.
    bool has_lost(wire_header const& welcome) const { return number_ != 0 && welcome.sequence < forgotten_; }
    void take_welcome(wire_header const& welcome);
    // How far the server says that it is: so far it needs nothing again.
    void take_positions(wire_header const& h);
    // What goes to the server at a position after all others: it is kept for as long as it may have
    // to be sent again.
    sending to_send(std::uint64_t position, std::vector<std::byte> bytes) const;
    void note_sent(sending& of) noexcept;

private:
    bool open_ = false, durably_ = false, knows_of_stop_ = false;
    clock::time_point last_seen_ = {};
    std::uint64_t number_ = 0, previous_ = 0, received_ = 0, forgotten_ = 0, applied_ = 0, durable_ = 0;
    std::list<std::uint64_t> in_flight_;
    std::list<sent> kept_;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/connection.ipp>
#endif
