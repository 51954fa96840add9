#pragma once

namespace gradstep::distributed::inline GRADSTEP_ABI {
GRADSTEP_DEFINE worker::~worker() = default;

GRADSTEP_DEFINE void worker::barrier() {
    auto lock = session_.lock();
    require_open("barrier");
    if (at_barrier_)
        detail::fail<sequence_error>({"barrier"}, {"another thread of rank ", session_.rank(), " is in this call"},
                                     {"one thread to call it for all"});
    alone const entered(at_barrier_);
    bool const again = barrier_ != 0; // the last call has thrown
    if (!again) wait_for_pushes(lock, "barrier");
    std::uint64_t const position = again ? barrier_ : session_.position() + 1;
    auto all = session_.about_all(detail::wire_kind::barrier, [&](std::size_t s) {
        return session_.parameters().serves(s) && position > session_.server(s).received();
    });
    for (detail::pending_request& one : all) one.position = position;
    if (again) {
        session_.ask(lock, all, "barrier");
    } else {
        session_.ask(lock, all, "barrier", [&] {
            std::vector<detail::session::outgoing_message> messages;
            for (detail::pending_request& one : all)
                session_.write(messages, one.server, one.header, {}, 0, [](auto&) {});
            session_.send_all(std::move(messages));
            barrier_ = position;
        });
    }
    barrier_ = 0;
}

GRADSTEP_DEFINE void worker::stop() {
    auto lock = session_.lock();
    if (stopped_) return;
    session_.throw_failure();
    if (at_stop_)
        detail::fail<sequence_error>({"stop"}, {"another thread of rank ", session_.rank(), " is in this call"},
                                     {"one thread to call it for all"});
    alone const entered(at_stop_);
    wait_for_pushes(lock, "stop");
    // First saves everything on all servers: if a server fails during the stop, it may need pushes
    // that this worker can compute again only with all servers.
    save(lock, "stop", [&](std::size_t s) { return session_.server(s).has_unsaved(); });
    auto all =
        session_.about_all(detail::wire_kind::stop, [&](std::size_t s) { return !session_.server(s).knows_of_stop(); });
    stopping_ = true;
    session_.ask(lock, all, "stop");
    stopped_ = true;
    session_.end();
}

GRADSTEP_DEFINE std::uint64_t worker::position() const {
    auto const lock = session_.lock();
    return session_.position();
}

GRADSTEP_DEFINE void worker::go_on_from(std::uint64_t position) {
    auto const lock = session_.lock();
    if (session_.has_sent())
        detail::fail<sequence_error>({"go_on_from"}, {"something has been pushed already"},
                                     {"the call before the first push"});
    if (position > session_.position())
        detail::fail<value_error>({"go_on_from: position"}, {position, " is out of range"},
                                  {"at most ", session_.position(), ", up to which the servers have applied all"});
    session_.set_position(position);
}

GRADSTEP_DEFINE std::uint64_t worker::size(std::string_view name) {
    auto const lock = session_.lock();
    return session_.parameters().parameter("size", name, {}, false).entry.total;
}

GRADSTEP_DEFINE std::uint64_t worker::applied() const {
    auto const lock = session_.lock();
    return least([&](detail::connection const& server) { return server.applied_of(session_.position()); });
}

GRADSTEP_DEFINE std::uint64_t worker::durable() const {
    auto const lock = session_.lock();
    return least([&](detail::connection const& server) { return server.durable_of(session_.position()); });
}

GRADSTEP_DEFINE bool worker::has_stopped() const {
    auto const lock = session_.lock();
    return knows_of_stop();
}

GRADSTEP_DEFINE worker::worker(std::unique_ptr<detail::any_messenger> ranks, worker_options options)
    : options_(checked(*ranks, options)),
      session_(std::move(ranks), static_cast<std::size_t>(options.num_servers), options.job) {
    auto lock = session_.lock();
    session_.begin(lock);
    session_.set_position(least([](detail::connection const& server) { return server.received(); }));
    stopping_ = knows_of_stop();
    stopped_ = !session_.any_server([&](std::size_t s) { return !session_.server(s).knows_of_stop(); });
    if (stopped_) session_.end();
}

GRADSTEP_DEFINE worker_options worker::checked(detail::any_messenger const& ranks, worker_options const& options) {
    int const rank = ranks.rank(), size = ranks.size();
    if (options.num_servers < 1 || options.num_servers >= size)
        detail::fail<value_error>({"worker_options.num_servers"}, {options.num_servers, " is out of range"},
                                  {"[1, ", size, ")"});
    if (rank < options.num_servers)
        detail::fail<value_error>({"worker"}, {"rank ", rank, " is a server"},
                                  {"[", options.num_servers, ", ", size, ")"});
    if (options.max_in_flight == 0 || options.max_kept == 0)
        detail::fail<value_error>({"worker_options"},
                                  {"max_in_flight = ", options.max_in_flight, ", max_kept = ", options.max_kept},
                                  {"> 0"});
    return options;
}

GRADSTEP_DEFINE bool worker::knows_of_stop() const {
    return session_.any_server([&](std::size_t s) { return session_.server(s).knows_of_stop(); });
}

GRADSTEP_DEFINE void worker::pull_all(std::string_view name, detail::wire_element element, std::span<std::byte> out,
                                      std::size_t elements) {
    auto lock = session_.lock();
    require_open("pull");
    auto const& of = session_.parameters().parameter("pull", name, element, false);
    require_size("pull", of, elements, of.entry.total, out.data());
    std::vector<detail::pending_request> all;
    for (detail::share const& x : of.shares) {
        detail::pending_request& one = all.emplace_back(about_pull(of, x.server));
        one.bytes = static_cast<std::size_t>(x.size) * bytes_of(element);
        one.out = out.data() + static_cast<std::size_t>(x.first) * bytes_of(element);
    }
    session_.ask(lock, all, "pull");
}

GRADSTEP_DEFINE void worker::pull_rows(std::string_view name, detail::wire_element element, given_keys const& given,
                                       std::span<std::byte> out, std::size_t elements) {
    auto lock = session_.lock();
    require_open("pull");
    auto const& of = session_.parameters().parameter("pull", name, element, true);
    require_ids(of, given);
    require_size("pull", of, elements, given.keys.size() * of.entry.width, out.data());
    std::vector<detail::pending_request> all;
    for (detail::share const& x : of.shares) {
        detail::pending_request& one = all.emplace_back(about_pull(of, x.server));
        one.bytes = static_cast<std::size_t>(of.entry.width) * bytes_of(element);
        one.out = out.data();
        one.is_rows = true;
        auto own = session_.parameters().keys_on(x.server, given.keys);
        one.keys = std::move(own.keys);
        one.indices = std::move(own.indices);
    }
    session_.ask(lock, all, "pull");
}

GRADSTEP_DEFINE detail::pending_request worker::about_pull(detail::known_parameter const& of, std::size_t server) {
    auto out = session_.about(detail::wire_kind::pull, server);
    out.header.element = of.entry.element;
    out.header.parameter = of.hash;
    return out;
}

GRADSTEP_DEFINE void worker::push_all(std::string_view name, detail::wire_element element,
                                      std::span<std::byte const> from, std::size_t elements) {
    auto lock = session_.lock();
    auto const& of = to_push(name, element, false);
    require_size("push", of, elements, of.entry.total, from.data());
    make_room(lock, of);
    std::vector<detail::session::outgoing_message> all;
    for (detail::share const& x : of.shares) {
        auto const shard = from.subspan(static_cast<std::size_t>(x.first) * bytes_of(element),
                                        static_cast<std::size_t>(x.size) * bytes_of(element));
        session_.write(all, x.server, header_of_push(of), {}, static_cast<std::size_t>(x.size),
                       [&](detail::wire_writer& out) { out.append(shard.data(), shard.size()); });
    }
    session_.send_all(std::move(all));
}

GRADSTEP_DEFINE void worker::push_rows(std::string_view name, detail::wire_element element, given_keys const& given,
                                       std::span<std::byte const> from, std::size_t elements) {
    auto lock = session_.lock();
    auto const& of = to_push(name, element, true);
    require_ids(of, given);
    require_size("push", of, elements, given.keys.size() * of.entry.width, from.data());
    make_room(lock, of);
    std::vector<detail::session::outgoing_message> all;
    std::size_t const width = static_cast<std::size_t>(of.entry.width), bytes = width * bytes_of(element);
    for (detail::share const& x : of.shares) {
        auto const own = session_.parameters().keys_on(x.server, given.keys);
        session_.write(all, x.server, header_of_push(of), own.keys, own.keys.size() * width,
                       [&](detail::wire_writer& out) {
                           for (std::size_t const row : own.indices) out.append(from.data() + row * bytes, bytes);
                       });
    }
    session_.send_all(std::move(all));
}

GRADSTEP_DEFINE detail::known_parameter const& worker::to_push(std::string_view name, detail::wire_element element,
                                                               bool rows) const {
    require_open("push");
    auto const& of = session_.parameters().parameter("push", name, element, rows);
    if (!of.pulled())
        detail::fail<sequence_error>({"push"}, {"rank ", session_.rank(), " has not pulled ", of.entry.name},
                                     {"pull() first"});
    return of;
}

GRADSTEP_DEFINE detail::wire_header worker::header_of_push(detail::known_parameter const& of) const {
    auto out = session_.header(detail::wire_kind::push);
    if (!options_.check_elements) out.flags = detail::wire_flags::unchecked;
    out.element = of.entry.element;
    out.parameter = of.hash;
    return out;
}

GRADSTEP_DEFINE void worker::require_ids(detail::known_parameter const& of, given_keys const& given) {
    if (of.entry.total == 0 || !given.are_signed) return;
    for (std::uint64_t const key : given.keys)
        if (auto const id = static_cast<std::int64_t>(key); id < 0)
            detail::fail<value_error>({of.entry.name}, {"there is no row ", id}, {">= 0"});
}

GRADSTEP_DEFINE void worker::require_size(char const* call, detail::known_parameter const& of, std::uint64_t given,
                                          std::uint64_t expected, void const* memory) const {
    if (given != expected)
        detail::fail<size_error>({call, ": ", of.entry.name}, {"rank ", session_.rank(), " has ", given, " elements"},
                                 {expected});
    if (memory == nullptr && given != 0)
        detail::fail<buffer_error>({call, ": ", of.entry.name}, {"the memory is null"}, {given, " elements"});
}

GRADSTEP_DEFINE void worker::require_open(char const* call) const {
    if (stopping_ || stopped_)
        detail::fail<sequence_error>({call}, {"rank ", session_.rank(), " has called stop"}, {"no call after stop"});
    session_.throw_failure();
}

GRADSTEP_DEFINE void worker::wait_for_pushes(std::unique_lock<std::mutex>& lock, char const* call) {
    session_.wait(lock, call, [&](std::size_t s) { return !session_.server(s).in_flight().empty(); });
}

GRADSTEP_DEFINE void worker::make_room(std::unique_lock<std::mutex>& lock, detail::known_parameter const& of) {
    auto const is_busy = [&](std::size_t s) {
        auto const& server = session_.server(s);
        return of.is_on(s) && (!server.is_open() || server.in_flight().size() >= options_.max_in_flight);
    };
    session_.wait(lock, "push", is_busy);
    auto const is_full = [&](std::size_t s) {
        return of.is_on(s) && session_.server(s).kept().size() >= options_.max_kept;
    };
    while (session_.any_server(is_full)) { // again if another thread was faster
        session_.wait(lock, "push",
                      [&](std::size_t s) { return is_full(s) && !session_.server(s).in_flight().empty(); });
        save(lock, "push", is_full);
        session_.wait(lock, "push", is_busy);
    }
    require_open("push");
}
} // namespace gradstep::distributed::inline GRADSTEP_ABI
