#pragma once

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE server_protocol::server_protocol(int rank, int size, server_options const& options)
    : options_(options), rank_(rank), size_(size) {
    if (options.num_servers < 1 || options.num_servers >= size)
        fail<value_error>({"server_options.num_servers"}, {options.num_servers, " is out of range"},
                          {"[1, ", size, "), so that of the ", size, " ranks one at least is a worker"});
    if (rank < 0 || rank >= options.num_servers)
        fail<value_error>({"server"}, {"rank ", rank, " is a worker"}, {"[0, ", options.num_servers, ")"});
    workers_.resize(static_cast<std::size_t>(size - options.num_servers));
}

GRADSTEP_DEFINE void server_protocol::take(int from, std::vector<std::byte> bytes) {
    replies_.clear();
    spent_.clear();
    request_ = session_ = 0;
#if GRADSTEP_EXCEPTIONS
    try {
        take_message(from, std::move(bytes));
    } catch (error const& wrong) {
        refuse(from, wrong.what());
    }
#else
    take_message(from, std::move(bytes));
#endif
    for (auto const& one : parameters) merge(*one);
    release_barriers();
}

GRADSTEP_DEFINE std::vector<outgoing> server_protocol::finish() {
    save_now_ = false;
    for (auto& waits : saves_) release(waits.to, waits.request);
    saves_.clear();
    // To all at once: a message that a worker sends after its stop is for the server that comes
    // next.
    for (std::size_t w = 0; w != workers_.size() && is_finished(); ++w)
        if (auto const request = std::exchange(workers_[w].stop, 0); request != 0)
            release(w, request, wire_flags::stopped);
    if (is_finished())
        for (auto* const all : {&forwarded_, &for_next_})
            for (auto& bytes : std::exchange(*all, {})) replies_.push_back({rank_, std::move(bytes)});
    return std::move(replies_);
}

GRADSTEP_DEFINE std::vector<outgoing> server_protocol::begin() {
    replies_.clear();
    number_ = wire_number();
    for (std::size_t w = 0; w != workers_.size(); ++w) {
        workers_[w].session = 0; // of an earlier run
        if (is_finished()) {
            welcome(w);
            continue;
        }
        auto with = header(w, wire_kind::begun);
        with.request = number_;
        reply(w, with, {});
    }
    return std::move(replies_);
}

GRADSTEP_DEFINE std::vector<outgoing> server_protocol::heartbeats() {
    replies_.clear();
    for (std::size_t w = 0; w != workers_.size(); ++w)
        if (workers_[w].stop != 0 || is_waiting(w)) acknowledge(w);
    return std::move(replies_);
}

GRADSTEP_DEFINE std::vector<outgoing> server_protocol::refuse_all(std::string_view why) {
    replies_.clear();
    for (std::size_t w = 0; w != workers_.size(); ++w) {
        auto with = header(w, wire_kind::refusal);
        with.flags = wire_flags::of_ranks;
        reply(w, with, joined({"server ", rank_, " has ended: ", why}));
    }
    return std::move(replies_);
}

GRADSTEP_DEFINE bool server_protocol::is_finished() const {
    return std::all_of(workers_.begin(), workers_.end(), [](worker_positions const& w) { return w.stopped; });
}

GRADSTEP_DEFINE void server_protocol::reopen() {
    for (auto& w : workers_) w.stopped = false;
}

GRADSTEP_DEFINE bool server_protocol::is_waiting(std::size_t worker) const {
    if (workers_[worker].waits_for != 0 || !workers_[worker].open.empty()) return true;
    return std::any_of(parameters.begin(), parameters.end(), [worker](auto const& one) {
        return std::any_of(one->pulls.begin(), one->pulls.end(),
                           [worker](served_parameter::deferred const& pull) { return pull.worker == worker; });
    });
}

GRADSTEP_DEFINE server_positions server_protocol::positions() const {
    server_positions out;
    out.workers = workers_.size();
    out.rank = rank_;
    out.servers = options_.num_servers;
    for (auto const& w : workers_) out.add(w);
    for (auto const& one : parameters)
        out.of_parameters.insert(out.of_parameters.end(), one->applied.begin(), one->applied.end());
    return out;
}

GRADSTEP_DEFINE void server_protocol::restore(server_positions const& from) {
    for (std::size_t w = 0; w != workers_.size(); ++w) workers_[w] = from.of_worker(w);
    auto next = from.of_parameters.begin();
    for (auto const& one : parameters)
        for (std::size_t w = 0; w != workers_.size(); ++w) {
            one->applied[w] = *next++;
            one->forget(w);
        }
}

GRADSTEP_DEFINE void server_protocol::note_saved() {
    for (std::size_t w = 0; w != workers_.size(); ++w) {
        if (workers_[w].durable == workers_[w].applied) continue;
        workers_[w].durable = workers_[w].applied;
        if (is_durable_) acknowledge(w);
    }
}

// ---- Answers

GRADSTEP_DEFINE wire_header server_protocol::header(std::size_t to, wire_kind kind) const {
    wire_header out;
    out.kind = kind;
    out.rank = static_cast<std::uint32_t>(rank_);
    out.job = options_.job;
    out.session = workers_[to].session;
    out.sequence = workers_[to].applied;
    out.previous = workers_[to].durable;
    return out;
}

GRADSTEP_DEFINE void server_protocol::reply(std::size_t to, wire_header const& with, std::string_view text) {
    auto of_text = with;
    of_text.element = {};
    replies_.push_back({rank_of(to), wire_text(of_text, text)});
}

GRADSTEP_DEFINE void server_protocol::release(std::size_t to, std::uint64_t request, std::uint8_t flags) {
    auto with = header(to, wire_kind::released);
    with.flags = flags;
    with.request = request;
    reply(to, with, {});
}

GRADSTEP_DEFINE void server_protocol::welcome(std::size_t to) {
    auto with = header(to, wire_kind::welcome);
    with.request = number_;
    with.flags = static_cast<std::uint8_t>((workers_[to].stopped ? wire_flags::stopped : 0) |
                                           (is_durable_ ? wire_flags::durable : 0));
    std::vector<wire_entry> all;
    for (auto const& one : parameters) all.push_back(one->entry);
    replies_.push_back(
        {rank_of(to), wire_directory(with, {static_cast<std::uint64_t>(options_.mode), options_.split_from}, all)});
}

GRADSTEP_DEFINE void server_protocol::refuse(int from, std::string_view why) {
    if (number_of(from) >= workers_.size()) return; // not a worker: it does not read answers
    auto with = header(number_of(from), wire_kind::refusal);
    with.request = request_;
    if (session_ != 0) with.session = session_; // it can be of an earlier job on these ranks
    reply(number_of(from), with, joined({"server ", rank_, " refuses what rank ", from, " has sent: ", why}));
}

// If there is no memory for the answer to a pull, only that pull fails.
GRADSTEP_DEFINE void server_protocol::answer(served_parameter& of, std::size_t worker, wire_message const& pull) {
    request_ = pull.header.request;
    session_ = pull.header.session;
#if GRADSTEP_EXCEPTIONS
    try {
        answer_pull(of, worker, pull);
    } catch (std::bad_alloc const&) {
        refuse_answer(of, worker, pull);
    } catch (std::length_error const&) {
        refuse_answer(of, worker, pull);
    } catch (error const& wrong) {
        refuse(rank_of(worker), wrong.what());
    }
#else
    answer_pull(of, worker, pull);
#endif
}

GRADSTEP_DEFINE void server_protocol::refuse_answer(served_parameter const& of, std::size_t worker,
                                                    wire_message const& pull) {
    auto const& entry = of.entry;
    refuse(rank_of(worker), gradstep::detail::message({entry.name},
                                                      {"there is no memory for an answer with ",
                                                       entry.is_rows ? pull.header.keys : entry.size,
                                                       entry.is_rows ? " rows" : " elements"},
                                                      {"fewer in one pull"}));
}

GRADSTEP_DEFINE void server_protocol::answer_pull(served_parameter& of, std::size_t worker, wire_message const& pull) {
    auto const& entry = of.entry;
    auto with = header(worker, wire_kind::weights);
    with.element = entry.element;
    with.parameter = pull.header.parameter;
    if (!options_.check_elements) with.flags = wire_flags::unchecked;
    with.request = pull.header.request;
    std::size_t const elements =
        entry.is_rows ? pull.keys.size() * static_cast<std::size_t>(entry.width) : static_cast<std::size_t>(entry.size);
    wire_writer out(with, 0, elements);
    of.read(pull.keys, out.room(elements * bytes_of(entry.element)));
    of.has_pulled(worker, pull.keys, may_hold_);
    replies_.push_back({rank_of(worker), out.take()});
    of.pulled[worker] = 1;
    of.pulled_at[worker] = of.steps;
}

GRADSTEP_DEFINE void server_protocol::ask_again(std::size_t worker) {
    auto with = header(worker, wire_kind::rewind);
    with.sequence = workers_[worker].received;
    reply(worker, with, {});
}

// ---- Messages

GRADSTEP_DEFINE void server_protocol::take_message(int from, std::vector<std::byte> bytes) {
    if (from == rank_ || number_of(from) >= workers_.size()) {
        // The writer can be a server of the next job, in which this rank is a worker.
        if (is_for_any_session(bytes)) return (from == rank_ ? forwarded_ : for_next_).push_back(std::move(bytes));
        fail<value_error>({"a message of rank ", from}, {"this rank is no worker"},
                          {"[", num_servers(), ", ", size(), ")"});
    }
    auto const message = wire_message::read(bytes, from);
    auto const& h = message.header;
    std::size_t const w = number_of(from);
    worker_positions& worker = workers_[w];
    session_ = h.session;
    if (h.job > options_.job) return; // a later job: the worker sends it again when this rank has come to it
    if (h.kind == wire_kind::hello && h.job < options_.job)
        fail<value_error>({"rank ", from, ": job"}, {h.job, " has ended"}, {options_.job, ", the job of this server"});
    if (h.kind == wire_kind::hello) return take_hello(w, message);
    if (h.kind == wire_kind::pull) request_ = h.request;
    if (h.session == 0 || h.session != worker.session) return; // from before a restart: the worker sends it again
    if (h.kind > last_wire_kind_of_workers)
        fail<value_error>({"a message of rank ", from}, {"is of the kind ", static_cast<std::uint32_t>(h.kind)},
                          {"a kind that workers send"});
    if (h.kind == wire_kind::alive) return;
    if (worker.stopped && h.kind != wire_kind::stop)
        fail<sequence_error>({"rank ", from}, {"has called stop"}, {"no call after stop"});
    if (h.sequence < h.previous)
        fail<value_error>({"a message of rank ", from}, {"has the position ", h.sequence},
                          {">= ", h.previous, ", the previous one"});
    served_parameter* const of = h.kind == wire_kind::pull || h.kind == wire_kind::push ? &parameter_of(h) : nullptr;
    if (of != nullptr) of->require_fits(w, message, rank_, num_servers());
    if (h.previous > worker.received) { // an earlier message was lost
        if (std::exchange(worker.asked, worker.received + 1) != worker.received + 1) ask_again(w);
        return;
    }
    switch (h.kind) {
    case wire_kind::pull:
        worker.receive(h.sequence);
        if (!of->pushes[w].empty()) {
            of->pulls.push_back({w, std::move(bytes), message});
        } else {
            answer(*of, w, message);
        }
        return;
    case wire_kind::push:
        return take_push(*of, w, std::move(bytes), message);
    case wire_kind::barrier:
        worker.come_to_barrier(h.sequence, h.request, is_durable_);
        acknowledge(w);
        return;
    case wire_kind::save: // a checkpoint for another worker may already contain this worker's pushes
        save_now_ = save_now_ || worker.durable != worker.applied;
        saves_.push_back({w, h.request});
        return;
    default: // stop
        worker.receive(h.sequence);
        worker.stopped = true;
        worker.stop = h.request;
        for (auto const& one : parameters) one->has_left(w);
        // Answered when all workers have stopped. Until then the worker waits, and sends its stop
        // again to a restarted server.
        save_now_ = is_finished();
    }
}

GRADSTEP_DEFINE void server_protocol::take_hello(std::size_t w, wire_message const& hello) {
    std::string const own = wire_description(options_.num_servers, size_);
    if (hello.text() != own)
        fail<value_error>({"rank ", rank_of(w)}, {"is of ", in_quotes(hello.text())},
                          {in_quotes(own), " as this server"});
    if (hello.header.session == 0) fail<value_error>({"rank ", rank_of(w)}, {"has the session 0"}, {"another number"});
    has_begun_ = true;
    if (workers_[w].session != hello.header.session) {
        workers_[w].begin_anew(hello.header.session);
        for (auto const& one : parameters) one->forget(w);
    }
    for (auto const& one : parameters)
        if (std::find(hello.keys.begin(), hello.keys.end(), one->hash) != hello.keys.end()) one->pulled[w] = 1;
    welcome(w);
}

GRADSTEP_DEFINE served_parameter& server_protocol::parameter_of(wire_header const& h) const {
    if (served_parameter* const found = parameters.find(h.parameter)) return *found;
    fail<value_error>({"a message of rank ", h.rank}, {"is for the parameter with the hash ", h.parameter},
                      {"a parameter of this server"});
}

GRADSTEP_DEFINE void server_protocol::take_push(served_parameter& of, std::size_t w, std::vector<std::byte> bytes,
                                                wire_message const& message) {
    worker_positions& worker = workers_[w];
    std::uint64_t const position = message.header.sequence;
    if (position <= worker.received || position <= of.applied[w]) {
        worker.receive(position);
        acknowledge(w);
        return;
    }
    if (options_.mode == server_mode::synchronous) {
        of.pushes[w].push_back({position, std::move(bytes), message});
        worker.receive_to_wait(position);
        return;
    }
    of.update(w, message);
    of.has_pushed(w, message.keys);
    late_ += of.steps++ - of.pulled_at[w];
    of.applied[w] = position;
    ++pushes_;
    worker.receive(position);
    acknowledge(w);
    spent_.push_back(std::move(bytes));
}

// Steps as long as every worker that has not stopped has a push; then answers the pulls that have
// waited for that.
GRADSTEP_DEFINE void server_protocol::merge(served_parameter& of) {
    if (options_.mode != server_mode::synchronous) return;
    for (;;) {
        std::vector<std::size_t> all;
        bool complete = true;
        for (std::size_t w = 0; w != workers_.size() && complete; ++w) {
            if (!of.pushes[w].empty()) all.push_back(w);
            else complete = workers_[w].stopped;
        }
        if (!complete || all.empty()) break;
        std::vector<wire_message> gradients;
        for (std::size_t const w : all) gradients.push_back(of.pushes[w].front().message);
        of.update(gradients);
        pushes_ += all.size();
        for (std::size_t const w : all) {
            auto& first = of.pushes[w].front();
            of.has_pushed(w, first.message.keys);
            of.applied[w] = first.position;
            spent_.push_back(std::move(first.bytes));
            of.pushes[w].pop_front();
            workers_[w].apply(of.applied[w]);
            acknowledge(w);
        }
    }
    auto const ready = [&](served_parameter::deferred const& pull) { return of.pushes[pull.worker].empty(); };
    for (auto const& pull : of.pulls)
        if (ready(pull)) answer(of, pull.worker, pull.message);
    std::erase_if(of.pulls, ready);
}

GRADSTEP_DEFINE void server_protocol::release_barriers() {
    std::optional<std::uint64_t> all;
    for (auto const& w : workers_)
        if (!w.stopped) all = std::min(all.value_or(w.barriers), w.barriers);
    for (std::size_t w = 0; w != workers_.size(); ++w) {
        if (workers_[w].waits_for == 0 || (all && *all < workers_[w].waits_for)) continue;
        workers_[w].waits_for = 0;
        release(w, workers_[w].barrier);
    }
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
