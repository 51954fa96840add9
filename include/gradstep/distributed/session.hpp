#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
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
struct question {
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

    void take_weights(wire_message const& answer) {
        std::size_t const expected = is_rows ? places.size() * bytes : bytes;
        if (answer.header.element != header.element || answer.body.size() != expected)
            fail<value_error>({"a message of rank ", server, " has ", answer.body.size(), " bytes of ",
                               name_of(answer.header.element), ": must have ", expected, " of ",
                               name_of(header.element)});
        for (std::size_t i = 0; i != places.size(); ++i)
            std::memcpy(out + places[i] * bytes, answer.body.data() + i * bytes, bytes);
        if (!is_rows && expected != 0) std::memcpy(out, answer.body.data(), expected);
        answered = true;
    }
    void refuse(std::string sentence) {
        refusal = std::move(sentence);
        answered = true;
    }
};

// A worker's session with its servers, from their welcome on: it sends to them, takes what comes, and waits for it. Whoever calls
// anything has the lock; those members that take it give it up while they wait.
class session {
public:
    session(std::unique_ptr<any_messenger> ranks, std::size_t servers)
        : ranks_(std::move(ranks)), directory_(ranks_->rank(), servers), servers_(servers) {}

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

    // The number of pushes and barriers that lie behind; whether any has been sent since this session began.
    std::uint64_t position() const { return position_; }
    void set_position(std::uint64_t position) { position_ = position; }
    bool has_sent() const { return has_sent_; }

    // Takes up the service of all servers.
    void begin(std::unique_lock<std::mutex>& lock) {
        for (std::size_t s = 0; s != servers_.size(); ++s) say_hello(s);
        wait(lock, "worker", [&](std::size_t s) { return !servers_[s].is_open(); });
        directory_.require_all_served();
    }
    // What a server has refused of a push, or why it cannot go on.
    void throw_failure() const {
        if (failure_.empty()) return;
        if (failure_is_of_ranks_) fail<rank_error>(failure_);
        fail<value_error>(failure_);
    }

    // ---- what is sent

    wire_header header(wire_kind kind) const {
        wire_header out;
        out.kind = kind;
        out.rank = static_cast<std::uint32_t>(rank());
        out.session = number_;
        return out;
    }
    // What goes to a server at the next position.
    struct letter {
        std::size_t to;
        connection::sending what;
    };
    // Writes one, where the server has not had it since before this worker began.
    template <class Write>
    void write(std::vector<letter>& all, std::size_t to, wire_header h, std::span<std::uint64_t const> keys,
               std::size_t elements, Write const& write_elements) const {
        connection const& server = servers_[to];
        std::uint64_t const position = position_ + 1;
        if (position <= server.had()) return;
        h.sequence = position;
        h.previous = server.previous();
        wire_writer out(h, keys.size(), elements);
        out.append(keys);
        write_elements(out);
        all.push_back({to, server.to_send(position, out.take())});
    }
    // Takes the next position and sends all that goes there. Up to here a call that throws has done nothing. What the engine fails to
    // send now has half happened: the session cannot go on, and every later call says so.
    void send_all(std::vector<letter> all) {
        has_sent_ = true;
        ++position_;
        for (letter& one : all) servers_[one.to].note_sent(one.what);
        gradstep::detail::translating<std::exception>(
            [&] {
                for (letter& one : all) send(one.to, std::move(one.what.bytes));
            },
            [&](std::exception const& why) {
                failure_ = joined({"rank ", rank(), " could not send all of what it had begun to send: ", why.what()});
                failure_is_of_ranks_ = true;
            });
    }
    question about(wire_kind kind, std::size_t server) {
        question out;
        out.server = server;
        out.header = header(kind);
        out.header.request = ++requests_;
        return out;
    }
    // To those servers s for which asks(s).
    template <class Asks> std::vector<question> about_all(wire_kind kind, Asks const& asks) {
        std::vector<question> out;
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (asks(s)) out.push_back(about(kind, s));
        return out;
    }
    // Asks, by now() or as the questions are, and waits for all answers. Throws what is refused.
    void ask(std::unique_lock<std::mutex>& lock, std::span<question> all, char const* call) {
        ask(lock, all, call, [&] {
            for (question& one : all) send(one);
        });
    }
    template <class Send>
    void ask(std::unique_lock<std::mutex>& lock, std::span<question> all, char const* call, Send const& now) {
        struct registered {
            session& self;
            std::span<question> all;
            ~registered() {
                for (question& one : all) std::erase(self.open_, &one);
            }
        } const entered{*this, all};
        for (question& one : all) open_.push_back(&one);
        now();
        wait(lock, call, [&](std::size_t s) {
            return std::any_of(all.begin(), all.end(),
                               [s](question const& one) { return one.server == s && !one.answered; });
        });
        for (question const& one : all)
            if (!one.refusal.empty()) fail<value_error>(one.refusal);
    }

    // ---- what comes

    // Waits while owes(server) of any; one of the threads that wait takes what comes for all of them.
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
                if (owes(s) && now > std::max(begun, servers_[s].heard()) + 2 * timeout)
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
    void send(question& one) {
        connection const& server = servers_[one.server];
        if (!server.is_open()) return; // it is sent with the welcome
        one.header.previous = server.previous();
        one.header.sequence = std::max(position_, server.previous());
        if (one.position != 0) one.header.previous = one.header.sequence = one.position;
        wire_writer out(one.header, one.keys.size(), 0);
        out.append(one.keys);
        send(one.server, out.take());
    }
    void say_hello(std::size_t to) {
        servers_[to].say_hello();
        auto const pulled = directory_.pulled_from(to);
        std::string const text = wire_description(static_cast<int>(servers_.size()), ranks_->size());
        wire_writer out(header(wire_kind::hello), pulled.size(), text.size());
        out.append(pulled);
        out.append(text.data(), text.size());
        send(to, out.take());
    }
    // All after a position, and the questions.
    void send_again(std::size_t to, std::uint64_t after) {
        for (auto const& one : servers_[to].kept())
            if (one.position > after) send(to, one.bytes);
        for (question* const one : open_)
            if (one->server == to && !one->answered) send(*one);
    }

    void pump(std::unique_lock<std::mutex>& lock, idle_time& idle) {
        std::optional<message> got;
        pumps_ = true;
        {
            struct ended {
                session& self;
                std::unique_lock<std::mutex>& lock;
                ~ended() {
                    if (!lock.owns_lock()) lock.lock();
                    self.pumps_ = false;
                    self.arrived_.notify_all();
                }
            } const at_end{*this, lock};
            if (ranks_->allows_threads()) {
                lock.unlock();
                got = ranks_->receive(std::chrono::milliseconds(5));
            } else {
                got = ranks_->receive(std::chrono::milliseconds(0));
                if (got) {
                    idle.begin_anew();
                } else {
                    lock.unlock();
                    idle.pass();
                }
            }
        }
        if (!got) return;
        take(*got);
        ranks_->reuse(std::move(got->bytes));
    }
    void take(message const& got) {
        if (got.from < 0 || static_cast<std::size_t>(got.from) >= servers_.size())
            return; // of another use of the messenger
        auto const message = wire_message::read(got.bytes, got.from);
        auto const& h = message.header;
        auto const s = static_cast<std::size_t>(got.from);
        connection& server = servers_[s];
        server.hear();
        bool const ended = h.kind == wire_kind::welcome && (h.flags & wire_flags::stopped) != 0;
        bool const of_any = h.kind == wire_kind::begun || h.kind == wire_kind::refusal || ended;
        if (h.session != number_ && (h.session != 0 || !of_any)) return; // to one before
        question* const asked = asked_by(s, h.request);
        switch (h.kind) {
        case wire_kind::begun:
            if (h.request != server.number()) say_hello(s);
            return;
        case wire_kind::welcome:
            return take_welcome(s, message);
        case wire_kind::weights:
            server.take_positions(h);
            if (asked == nullptr) return;
            asked->take_weights(message);
            directory_.set_pulled(h.parameter, s);
            return;
        case wire_kind::applied:
            return server.take_positions(h);
        case wire_kind::rewind:
            return send_again(s, h.sequence);
        case wire_kind::released:
            server.take_positions(h);
            if (asked == nullptr) return;
            asked->answered = true;
            if (asked->header.kind == wire_kind::stop) server.learn_of_stop();
            return;
        case wire_kind::refusal:
            if (asked != nullptr) asked->refuse(std::string(message.text()));
            if (h.request != 0) return; // of a question, which was perhaps asked twice
            failure_ = message.text();
            failure_is_of_ranks_ = (h.flags & wire_flags::of_ranks) != 0;
            return;
        default:
            fail<value_error>({"a message of rank ", got.from, " is of the kind ", static_cast<std::uint32_t>(h.kind),
                               ", which servers do not send"});
        }
    }
    question* asked_by(std::size_t server, std::uint64_t request) const {
        for (question* const one : open_)
            if (one->server == server && one->header.request == request && !one->answered) return one;
        return nullptr;
    }
    void take_welcome(std::size_t s, wire_message const& message) {
        auto const& h = message.header;
        connection& server = servers_[s];
        if (server.is_open() && server.number() == h.request) return; // to a hello that was said twice
        directory_.take(s, message);
        if (server.has_lost(h)) {
            failure_ = joined({"server ", s, " has begun anew with what rank ", rank(), " has pushed up to ",
                               h.sequence, ", and what came after it up to ", server.forgotten(),
                               " was not kept: give the server a checkpoint, and that which it wrote last"});
            return;
        }
        server.take_welcome(h);
        if (server.knows_of_stop())
            for (question* const one : open_)
                if (one->server == s && one->header.kind == wire_kind::stop) one->answered = true;
        send_again(s, server.applied());
    }

    std::unique_ptr<any_messenger> ranks_;
    std::uint64_t number_ = wire_number();

    mutable std::mutex mutex_;
    std::condition_variable arrived_; // something, or nobody takes what comes any more
    bool pumps_ = false;              // one of the threads
    directory directory_;
    std::vector<connection> servers_;
    std::vector<question*> open_;
    std::uint64_t position_ = 0, requests_ = 0;
    bool has_sent_ = false;
    std::string failure_;
    bool failure_is_of_ranks_ = false;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed
