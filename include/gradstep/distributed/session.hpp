#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/distributed/any_messenger.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/connection.hpp>
#include <gradstep/distributed/directory.hpp>
#include <gradstep/distributed/wire.hpp>

namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

// What a server is asked, until it has answered; where the answer goes to.
struct pending_request {
    std::size_t server;
    wire_header header;
    std::vector<std::uint64_t> keys = {};
    std::byte* out = nullptr;
    bool is_rows = false;
    std::size_t bytes = 0;                // of a row, or of the whole piece
    std::vector<std::size_t> places = {}; // of each key's row
    std::uint64_t position = 0;           // of a barrier; of other questions it does not matter
    bool answered = false;
    std::string refusal = {};

    void take_weights(wire_message const& answer);
    void refuse(std::string sentence);
};

// A worker's session with its servers, from their welcome on: it sends to them, takes what comes,
// and waits for it. Whoever calls anything has the lock; those members that take it give it up
// while they wait.
class session {
public:
    session(std::unique_ptr<any_messenger> ranks, std::size_t servers);
    ~session();

    std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

    int rank() const { return ranks_->rank(); }
    int num_workers() const { return ranks_->size() - static_cast<int>(servers_.size()); } // needs no lock
    std::size_t num_servers() const { return servers_.size(); }
    connection const& server(std::size_t s) const { return servers_[s]; }
    directory const& parameters() const { return directory_; }
    // Whether holds(s) for a server s.
    template <class Holds> bool any_server(Holds const& holds) const {
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (holds(s)) return true;
        return false;
    }

    // The number of pushes and barriers that lie behind; whether any has been sent since this
    // session began.
    std::uint64_t position() const { return position_; }
    void set_position(std::uint64_t position) { position_ = position; }
    bool has_sent() const { return has_sent_; }

    // Takes up the service of all servers.
    void begin(std::unique_lock<std::mutex>& lock);
    // What a server has refused of a push, or why it cannot go on.
    void throw_failure() const;

    // ---- what is sent

    wire_header header(wire_kind kind) const;
    // What goes to a server at the next position.
    struct outgoing_message {
        std::size_t to;
        connection::sending what;
    };
    // Writes one, where the server has not had it since before this worker began.
    template <class Write>
    void write(std::vector<outgoing_message>& all, std::size_t to, wire_header h, std::span<std::uint64_t const> keys,
               std::size_t elements, Write const& write_elements) const {
        connection const& server = servers_[to];
        std::uint64_t const position = position_ + 1;
        if (position <= server.received()) return;
        h.sequence = position;
        h.previous = server.previous();
        wire_writer out(h, keys.size(), elements);
        out.append(keys);
        write_elements(out);
        all.push_back({to, server.to_send(position, out.take())});
    }
    // Takes the next position and sends all that goes there. Up to here a call that throws has done
    // nothing. What the engine fails to send now has half happened: the session cannot go on, and
    // every later call says so.
    void send_all(std::vector<outgoing_message> all);
    pending_request about(wire_kind kind, std::size_t server);
    // To those servers s for which asks(s).
    template <class Asks> std::vector<pending_request> about_all(wire_kind kind, Asks const& asks) {
        std::vector<pending_request> out;
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (asks(s)) out.push_back(about(kind, s));
        return out;
    }
    // Asks, by now() or as the questions are, and waits for all answers. Throws what is refused.
    void ask(std::unique_lock<std::mutex>& lock, std::span<pending_request> all, char const* call);
    template <class Send>
    void ask(std::unique_lock<std::mutex>& lock, std::span<pending_request> all, char const* call, Send const& now) {
        struct registered {
            session& self;
            std::span<pending_request> all;
            ~registered() {
                for (pending_request& one : all) std::erase(self.open_, &one);
            }
        } const entered{*this, all};
        for (pending_request& one : all) open_.push_back(&one);
        now();
        wait(lock, call, [&](std::size_t s) {
            return std::any_of(all.begin(), all.end(),
                               [s](pending_request const& one) { return one.server == s && !one.answered; });
        });
        for (pending_request const& one : all)
            if (!one.refusal.empty()) fail<value_error>(one.refusal);
    }

    // ---- what comes

    // Waits while owes(server) of any; one of the threads that wait takes what comes for all of
    // them.
    template <class Owes> void wait(std::unique_lock<std::mutex>& lock, char const* call, Owes const& owes) {
        using clock = connection::clock;
        throw_failure();
        if (!any_server(owes)) return;
        auto const timeout = ranks_->timeout();
        auto const begun = clock::now();
        auto sign = begun + timeout / 4;
        idle_time idle;
        while (any_server(owes)) {
            if (!pumps_) pump(lock, idle);
            else arrived_.wait_for(lock, std::chrono::milliseconds(5));
            throw_failure();
            auto const now = clock::now();
            std::vector<int> missing;
            for (std::size_t s = 0; s != servers_.size(); ++s)
                if (owes(s) && now > std::max(begun, servers_[s].last_seen()) + 2 * timeout)
                    missing.push_back(static_cast<int>(s));
            if (!missing.empty()) refuse_wait(rank(), call, 2 * timeout, missing);
            if (now > sign) { // those that have answered are not to think that this rank is silent
                sign = now + timeout / 4;
                for (std::size_t s = 0; s != servers_.size(); ++s)
                    if (servers_[s].is_open() && !owes(s)) send(s, wire_writer(header(wire_kind::alive), 0, 0).take());
            }
        }
    }

private:
    void send(std::size_t to, std::vector<std::byte> bytes) { ranks_->send(static_cast<int>(to), std::move(bytes)); }
    void send(pending_request& one);
    void say_hello(std::size_t to);
    // All after a position, and the questions.
    void send_again(std::size_t to, std::uint64_t after);

    void pump(std::unique_lock<std::mutex>& lock, idle_time& idle);
    void take(message const& got);
    pending_request* asked_by(std::size_t server, std::uint64_t request) const;
    void take_welcome(std::size_t s, wire_message const& message);

    std::unique_ptr<any_messenger> ranks_;
    std::uint64_t number_ = wire_number();

    mutable std::mutex mutex_;
    std::condition_variable arrived_; // something, or nobody takes what comes any more
    bool pumps_ = false;              // one of the threads
    directory directory_;
    std::vector<connection> servers_;
    std::vector<pending_request*> open_;
    std::uint64_t position_ = 0, requests_ = 0;
    bool has_sent_ = false;
    std::string failure_;
    bool failure_is_of_ranks_ = false;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/session.ipp>
#endif
