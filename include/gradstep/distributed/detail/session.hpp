#pragma once
#include <condition_variable>
#include <mutex>

#include <gradstep/distributed/detail/any_messenger.hpp>
#include <gradstep/distributed/detail/connection.hpp>
#include <gradstep/distributed/detail/directory.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// A request to a server that has not answered yet, and the memory for the answer.
struct pending_request {
    std::size_t server;
    wire_header header;
    std::vector<std::uint64_t> keys = {};
    std::byte* out = nullptr;
    bool is_rows = false;
    std::size_t bytes = 0;                 // of a row, or of the whole shard
    std::vector<std::size_t> indices = {}; // the index of each key's row in `out`
    std::uint64_t position = 0;            // for barriers only
    bool answered = false;
    std::string refusal = {};

    void take_weights(wire_message const& answer);
    void refuse(std::string sentence);
};

// A worker's session with its servers, after their welcome: sends to them, receives, and waits for
// answers. Callers must hold the lock. Functions with a `lock` parameter release it while they
// wait. The class keeps the worker's position and one `connection` for each server, and resends
// messages that a restarted server has lost.
//
// Messages between two ranks stay in order, so everything that a server sends after the answer to
// this worker's stop is for the next session on this rank. `end` keeps it for that one.
class session {
public:
    session(std::unique_ptr<any_messenger> ranks, std::size_t servers, std::uint32_t job);
    ~session();

    std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

    int rank() const { return ranks_->rank(); }
    int num_workers() const { return ranks_->size() - static_cast<int>(servers_.size()); } // needs no lock
    std::size_t num_servers() const { return servers_.size(); }
    connection const& server(std::size_t s) const { return servers_[s]; }
    directory const& parameters() const { return directory_; }
    // Whether holds(s) is true for any server s.
    template <class Holds> bool any_server(Holds const& holds) const {
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (holds(s)) return true;
        return false;
    }

    // The number of pushes and barriers so far, and whether this session has sent any.
    std::uint64_t position() const { return position_; }
    void set_position(std::uint64_t position) { position_ = position; }
    bool has_sent() const { return has_sent_; }

    // Opens the connections to all servers, and waits for them.
    void begin(std::unique_lock<std::mutex>& lock);
    // After all servers know of the stop: sends this rank what is for the next session.
    void end();
    // Throws if a server has rejected a push or cannot continue.
    void throw_failure() const;

    // ---- Sending

    wire_header header(wire_kind kind) const;
    // A message to a server, at the next position.
    struct outgoing_message {
        std::size_t to;
        connection::sending what;
    };
    // Appends a message to `all`, unless the server already had it when this worker started.
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
    // Advances the position and sends all messages for it. Errors before this call have no effect.
    // If the transport fails in this call, some servers have the push and others do not: the
    // session cannot continue, and every later call throws.
    void send_all(std::vector<outgoing_message> all);
    pending_request about(wire_kind kind, std::size_t server);
    // One request to each server s with asks(s).
    template <class Asks> std::vector<pending_request> about_all(wire_kind kind, Asks const& asks) {
        std::vector<pending_request> out;
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (asks(s)) out.push_back(about(kind, s));
        return out;
    }
    // Sends the requests (or calls now(), which sends them) and waits for all answers. Throws the
    // error if a server refuses one.
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
            if (!one.refusal.empty()) throw_error<value_error>(one.refusal);
    }

    // ---- Receiving

    // Waits while owes(server) is true for any server. One of the waiting threads receives for all
    // of them.
    template <class Owes> void wait(std::unique_lock<std::mutex>& lock, char const* call, Owes const& owes) {
        using clock = connection::clock;
        throw_failure();
        if (!any_server(owes)) return;
        auto const timeout = ranks_->timeout();
        auto const start = clock::now();
        auto sign = start + timeout / 4;
        idle_time idle;
        while (any_server(owes)) {
            if (!pumps_) pump(lock, idle);
            else arrived_.wait_for(lock, std::chrono::milliseconds(5));
            throw_failure();
            auto const now = clock::now();
            std::vector<int> missing;
            for (std::size_t s = 0; s != servers_.size(); ++s)
                if (owes(s) && now > std::max(start, servers_[s].last_seen()) + 2 * timeout)
                    missing.push_back(static_cast<int>(s));
            if (!missing.empty()) refuse_wait(rank(), call, 2 * timeout, missing);
            if (now > sign) { // a heartbeat, so that servers that have answered do not time out
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
    // Sends all messages after a position again, and all requests.
    void send_again(std::size_t to, std::uint64_t after);

    void pump(std::unique_lock<std::mutex>& lock, idle_time& idle);
    void take(message& got);
    void take_wire(message& got);
    void learn_of_stop(std::size_t s);
    pending_request* asked_by(std::size_t server, std::uint64_t request) const;
    void accept_welcome(std::size_t s, wire_message const& message);

    std::unique_ptr<any_messenger> ranks_;
    std::uint32_t job_;
    std::uint64_t number_ = wire_number();

    mutable std::mutex mutex_;
    std::condition_variable arrived_; // signalled when a message arrives and when no thread receives
    bool pumps_ = false;              // whether a thread receives
    directory directory_;
    std::vector<connection> servers_;
    std::vector<pending_request*> open_;
    std::uint64_t position_ = 0, requests_ = 0;
    bool has_sent_ = false, has_begun_ = false;
    // Messages before this session has its mark: kept by the last session, and all others. And
    // messages for the next session.
    std::vector<message> forwarded_, early_, for_next_;
    std::string failure_;
    bool failure_is_of_ranks_ = false;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/session.ipp>
#endif
