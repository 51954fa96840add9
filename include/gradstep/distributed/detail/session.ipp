#pragma once
#include <cstring>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void pending_request::take_weights(wire_message const& answer) {
    std::size_t const expected = is_rows ? indices.size() * bytes : bytes;
    if (answer.header.element != header.element || answer.body.size() != expected)
        fail<value_error>({"a message of rank ", server},
                          {"has ", answer.body.size(), " bytes of ", name_of(answer.header.element)},
                          {expected, " of ", name_of(header.element)});
    for (std::size_t i = 0; i != indices.size(); ++i)
        std::memcpy(out + indices[i] * bytes, answer.body.data() + i * bytes, bytes);
    if (!is_rows && expected != 0) std::memcpy(out, answer.body.data(), expected);
    answered = true;
}

GRADSTEP_DEFINE void pending_request::refuse(std::string sentence) {
    refusal = std::move(sentence);
    answered = true;
}

GRADSTEP_DEFINE session::session(std::unique_ptr<any_messenger> ranks, std::size_t servers, std::uint32_t job)
    : ranks_(std::move(ranks)), job_(job), directory_(ranks_->rank(), servers), servers_(servers) {}
GRADSTEP_DEFINE session::~session() = default;

GRADSTEP_DEFINE void session::begin(std::unique_lock<std::mutex>& lock) {
    // The mark: this rank reads it after everything that its last session has kept for this one.
    ranks_->send(rank(), wire_writer(header(wire_kind::alive), 0, 0).take());
    for (std::size_t s = 0; s != servers_.size(); ++s) say_hello(s);
    wait(lock, "worker", [&](std::size_t s) { return !servers_[s].is_open(); });
    directory_.require_all_served();
}

GRADSTEP_DEFINE void session::end() {
    for (message& one : for_next_) ranks_->send(rank(), std::move(one.bytes));
    for_next_.clear();
}

GRADSTEP_DEFINE void session::throw_failure() const {
    if (failure_.empty()) return;
    if (failure_is_of_ranks_) throw_error<rank_error>(failure_);
    throw_error<value_error>(failure_);
}

GRADSTEP_DEFINE wire_header session::header(wire_kind kind) const {
    wire_header out;
    out.kind = kind;
    out.rank = static_cast<std::uint32_t>(rank());
    out.job = job_;
    out.session = number_;
    return out;
}

GRADSTEP_DEFINE void session::send_all(std::vector<outgoing_message> all) {
    has_sent_ = true;
    ++position_;
    for (outgoing_message& one : all) servers_[one.to].note_sent(one.what);
    gradstep::detail::rethrow_as<std::exception>(
        [&] {
            for (outgoing_message& one : all) send(one.to, std::move(one.what.bytes));
        },
        [&](std::exception const& why) {
            failure_ =
                gradstep::detail::message({"rank ", rank()}, {"could not send all messages of the call: ", why.what()});
            failure_is_of_ranks_ = true;
        });
}

GRADSTEP_DEFINE pending_request session::about(wire_kind kind, std::size_t server) {
    pending_request out;
    out.server = server;
    out.header = header(kind);
    out.header.request = ++requests_;
    return out;
}

GRADSTEP_DEFINE void session::ask(std::unique_lock<std::mutex>& lock, std::span<pending_request> all,
                                  char const* call) {
    ask(lock, all, call, [&] {
        for (pending_request& one : all) send(one);
    });
}

GRADSTEP_DEFINE void session::send(pending_request& one) {
    connection& server = servers_[one.server];
    if (!server.is_open()) return; // sent after the welcome
    if (one.header.kind == wire_kind::stop) server.ask_to_stop();
    one.header.previous = server.previous();
    one.header.sequence = std::max(position_, server.previous());
    if (one.position != 0) one.header.previous = one.header.sequence = one.position;
    wire_writer out(one.header, one.keys.size(), 0);
    out.append(one.keys);
    send(one.server, out.take());
}

GRADSTEP_DEFINE void session::say_hello(std::size_t to) {
    servers_[to].say_hello();
    auto const pulled = directory_.pulled_from(to);
    std::string const text = wire_description(static_cast<int>(servers_.size()), ranks_->size());
    wire_writer out(header(wire_kind::hello), pulled.size(), text.size());
    out.append(pulled);
    out.append(text.data(), text.size());
    send(to, out.take());
}

GRADSTEP_DEFINE void session::send_again(std::size_t to, std::uint64_t after) {
    for (auto const& one : servers_[to].kept())
        if (one.position > after) send(to, one.bytes);
    for (pending_request* const one : open_)
        if (one->server == to && !one->answered) send(*one);
}

GRADSTEP_DEFINE void session::pump(std::unique_lock<std::mutex>& lock, idle_time& idle) {
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
    if (!got->bytes.empty()) ranks_->reuse(std::move(got->bytes));
}

GRADSTEP_DEFINE void session::take(message& got) {
    bool const is_own = got.from == rank();
    if (is_own) {
        auto const h = peek_wire_header(got.bytes);
        if (!h) return;
        got.from = static_cast<int>(h->rank);
    }
    if (got.from == rank()) { // a mark
        if (has_begun_ || peek_wire_header(got.bytes)->session != number_) return;
        has_begun_ = true;
        for (auto* const all : {&forwarded_, &early_})
            for (message& one : std::exchange(*all, {})) take_wire(one);
    } else if (has_begun_) {
        take_wire(got);
    } else {
        (is_own ? forwarded_ : early_).push_back(std::move(got));
    }
}

GRADSTEP_DEFINE void session::take_wire(message& got) {
    bool const of_any = is_for_any_session(got.bytes);
    auto const for_next = [&] {
        if (of_any) for_next_.push_back(std::move(got));
    };
    if (got.from < 0 || static_cast<std::size_t>(got.from) >= servers_.size()) return for_next(); // no server now
    auto const message = wire_message::read(got.bytes, got.from);
    auto const& h = message.header;
    auto const s = static_cast<std::size_t>(got.from);
    connection& server = servers_[s];
    server.note_alive();
    if (h.job < job_) return;
    if (h.job > job_ || server.knows_of_stop()) return for_next();
    if (h.session != number_ && !of_any && (h.session != 0 || h.kind != wire_kind::begun))
        return; // for an earlier session of this rank
    if (of_any && h.kind == wire_kind::welcome && server.number() != 0 && !server.is_asked_to_stop())
        return; // the end of an earlier job, through which a restarted server has passed
    pending_request* const asked = asked_by(s, h.request);
    switch (h.kind) {
    case wire_kind::begun:
        if (h.request != server.number()) say_hello(s);
        return;
    case wire_kind::welcome:
        return accept_welcome(s, message);
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
        if ((h.flags & wire_flags::stopped) != 0) learn_of_stop(s);
        if (asked != nullptr) asked->answered = true;
        return;
    case wire_kind::refusal:
        if (asked != nullptr) asked->refuse(std::string(message.text()));
        if (h.request != 0) return; // answers a request that may have been sent twice
        failure_ = message.text();
        failure_is_of_ranks_ = (h.flags & wire_flags::of_ranks) != 0;
        return;
    default:
        fail<value_error>({"a message of rank ", got.from}, {"is of the kind ", static_cast<std::uint32_t>(h.kind)},
                          {"a kind that servers send"});
    }
}

GRADSTEP_DEFINE pending_request* session::asked_by(std::size_t server, std::uint64_t request) const {
    for (pending_request* const one : open_)
        if (one->server == server && one->header.request == request && !one->answered) return one;
    return nullptr;
}

GRADSTEP_DEFINE void session::accept_welcome(std::size_t s, wire_message const& message) {
    auto const& h = message.header;
    connection& server = servers_[s];
    if (server.is_open() && server.number() == h.request) return; // answers a hello that was sent twice
    directory_.take(s, message);
    if (server.lost_messages(h)) {
        failure_ = gradstep::detail::message({"server ", s},
                                             {"has restarted with the pushes of rank ", rank(), " up to ", h.sequence,
                                              ", and those up to ", server.forgotten(), " are not kept"},
                                             {"the newest checkpoint of the server"});
        return;
    }
    server.accept_welcome(h);
    if (server.knows_of_stop()) learn_of_stop(s);
    send_again(s, server.applied());
}

GRADSTEP_DEFINE void session::learn_of_stop(std::size_t s) {
    servers_[s].learn_of_stop();
    for (pending_request* const one : open_)
        if (one->server == s && one->header.kind == wire_kind::stop) one->answered = true;
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
