#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/buffer.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/distributed/any_messenger.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/session.hpp>
#include <gradstep/distributed/wire.hpp>

namespace gradstep::distributed {

/// What a worker does beyond its calls.
struct worker_options {
    /// As server_options.num_servers.
    int num_servers = 1;
    /// Pushes that a server has not applied yet; where there are so many, the next one waits until there are fewer.
    std::size_t max_in_flight = 16;
    /// Pushes that no checkpoint of the server has yet, of servers that write them: they are kept, to be sent again. Beyond these the
    /// next push asks for a checkpoint, and waits for it. A worker has up to so many gradients in memory for each server.
    std::size_t max_kept = 1024;
    /// As server_options.check_elements, of what is pushed.
    bool check_elements = false;
};

inline namespace GRADSTEP_ABI {

/// A worker of a job with servers of parameters (`server`): four calls, whatever the servers' mode is.
///
///     gs::distributed::worker worker{ranks};
///     for (std::uint64_t step = worker.position(); step != steps; ++step) {
///         worker.pull("w", weights);
///         compute(weights, gradient);
///         worker.push("w", gradient);        // begins to send, and does not wait for the step
///     }
///     worker.stop();
///
/// The messenger must outlive it. Calls may come from several threads; the pushes of one are applied in their order. The memory of
/// an argument is the caller's again when a call returns. A worker has no thread of its own: between its calls a message moves if the
/// engine moves it by itself, which MPI may leave to the next call.
///
/// A server that is started again goes on from its checkpoint, and the worker sends again what that has not. A worker that is
/// started again goes on from `position()`. What does not fit the parameter is refused before anything is sent; what a server
/// refuses of a pull, the pull throws; of a push, every call from then on. A server from which nothing comes for twice the
/// messenger's timeout is a rank_error that names it (after once the timeout a server names a worker that is silent; to those that
/// wait for others it says that it is there).
class worker {
public:
    /// Takes up the service of all servers, and waits for them. Throws value_error for options out of range, for a rank that is no
    /// worker's, and where servers, or this rank and they, are not alike: another version, other numbers of ranks, another mode or
    /// split_from, other elements, sizes or policies of one parameter, or one that not all servers have whose it is.
    template <messenger M>
    explicit worker(M& ranks, worker_options options = {})
        : worker(std::make_unique<detail::messenger_of<M>>(ranks), options) {}
    template <messenger M> explicit worker(M const&&, worker_options = {}) {
        static_assert(sizeof(M) == 0,
                      "gradstep: worker refers to its messenger, which must outlive it: give a variable");
    }
    worker(worker const&) = delete;
    worker& operator=(worker const&) = delete;

    /// Copies the weights of a dense parameter to `out`, which has as many elements; or the rows of these keys (std::uint64_t, or
    /// std::int64_t, whose bits count; of a gs::table ids, >= 0), in their order, to `out` of keys.size() x width. Of the synchronous
    /// mode they have all that this worker has pushed, with what the others pushed in the same steps. Throws value_error for an
    /// unknown name, another element or a negative id, size_error, buffer_error, and what the class says.
    template <class Out> void pull(std::string_view name, Out&& out) {
        gradstep::detail::require_lasting<Out>();
        using element = gradstep::detail::element_type<Out>;
        auto const to = gradstep::detail::as_span<element, host_memory>(out);
        pull_all(name, detail::wire_element_of<element>(), std::as_writable_bytes(to), to.size());
    }
    template <class Keys, class Out> void pull(std::string_view name, Keys&& keys, Out&& out) {
        gradstep::detail::require_lasting<Out>();
        using element = gradstep::detail::element_type<Out>;
        auto const to = gradstep::detail::as_span<element, host_memory>(out);
        pull_rows(name, detail::wire_element_of<element>(), keys_of(keys), std::as_writable_bytes(to), to.size());
    }
    /// Sends a gradient, or a delta, and does not wait for the step, but for others of its own where max_in_flight are on their way.
    /// Throws as `pull`, and sequence_error for a parameter that this worker has not pulled: nothing has been sent then. Where memory or
    /// the engine fails while it sends, it throws that, and every later call is a rank_error that says so: a worker that is started
    /// anew goes on from `position()`, and nothing is applied twice.
    template <class Gradient> void push(std::string_view name, Gradient const& gradient) {
        using element = std::remove_const_t<gradstep::detail::element_type<Gradient const>>;
        auto const from = gradstep::detail::as_span<element const, host_memory>(gradient);
        push_all(name, detail::wire_element_of<element>(), std::as_bytes(from), from.size());
    }
    template <class Keys, class Rows> void push(std::string_view name, Keys&& keys, Rows const& rows) {
        using element = std::remove_const_t<gradstep::detail::element_type<Rows const>>;
        auto const from = gradstep::detail::as_span<element const, host_memory>(rows);
        push_rows(name, detail::wire_element_of<element>(), keys_of(keys), std::as_bytes(from), from.size());
    }
    /// Waits until every worker that has not stopped has called it as often, and all that they pushed before is applied. Called again
    /// after one that has thrown, it waits for the same. One thread of a worker may be at a barrier: a second one gets a sequence_error.
    void barrier() {
        auto lock = session_.lock();
        require_open("barrier");
        if (at_barrier_)
            detail::fail<sequence_error>({"barrier: another thread of rank ", session_.rank(),
                                          " is at a barrier: one thread must call it for all"});
        alone const entered(at_barrier_);
        bool const again = barrier_ != 0; // one that has thrown
        if (!again) wait_for_pushes(lock, "barrier");
        std::uint64_t const position = again ? barrier_ : session_.position() + 1;
        auto all = session_.about_all(detail::wire_kind::barrier, [&](std::size_t s) {
            return session_.parameters().serves(s) && position > session_.server(s).had();
        });
        for (detail::question& one : all) one.position = position;
        if (again) {
            session_.ask(lock, all, "barrier");
        } else {
            session_.ask(lock, all, "barrier", [&] {
                std::vector<detail::session::letter> letters;
                for (detail::question& one : all) session_.write(letters, one.server, one.header, {}, 0, [](auto&) {});
                session_.send_all(std::move(letters));
                barrier_ = position;
            });
        }
        barrier_ = 0;
    }
    /// Waits until all that it has pushed is applied, and in the servers' checkpoints if they write any, says that this worker takes no
    /// more part, and waits until all others have said so too: the messenger may then serve another job. The next call is a
    /// sequence_error; another `stop` does nothing, or goes on with one that has thrown for the time that it took. One thread of a
    /// worker may be at a stop, as at a barrier.
    void stop() {
        auto lock = session_.lock();
        if (stopped_) return;
        session_.throw_failure();
        if (at_stop_)
            detail::fail<sequence_error>(
                {"stop: another thread of rank ", session_.rank(), " is at a stop: one thread must call it for all"});
        alone const entered(at_stop_);
        wait_for_pushes(lock, "stop");
        // First all of it everywhere: a server that dies between may need what this worker would compute with the help of all.
        save(lock, "stop", [&](std::size_t s) { return session_.server(s).has_unsaved(); });
        auto all = session_.about_all(detail::wire_kind::stop,
                                      [&](std::size_t s) { return !session_.server(s).knows_of_stop(); });
        stopping_ = true;
        session_.ask(lock, all, "stop");
        stopped_ = true;
    }

    /// How many pushes and barriers of this worker lie behind, `position()`. When it begins: those that all servers which have a part of
    /// anything have for good, in their checkpoints, or, where they write none, at all. `go_on_from` goes back to a smaller number, as
    /// the beginning of the step in whose middle that is: of what is pushed again, servers that have it already apply nothing. Throws
    /// value_error for a larger one, and sequence_error after the first push.
    std::uint64_t position() const {
        auto const lock = session_.lock();
        return session_.position();
    }
    void go_on_from(std::uint64_t position) {
        auto const lock = session_.lock();
        if (session_.has_sent())
            detail::fail<sequence_error>("go_on_from: something has been pushed already: call it before");
        if (position > session_.position())
            detail::fail<value_error>({"go_on_from: position = ", position, ": must be at most ", session_.position(),
                                       ", up to which the servers have applied all"});
        session_.set_position(position);
    }
    /// How many workers the job has, `num_workers()`, and the `size(name)` of a dense parameter. Throws value_error for an unknown name,
    /// and for rows.
    int num_workers() const { return session_.num_workers(); }
    std::uint64_t size(std::string_view name) {
        auto const lock = session_.lock();
        return session_.parameters().parameter("size", name, {}, false).entry.total;
    }
    /// The position up to which all servers have applied what this worker has pushed, `applied()`, and up to which their checkpoints
    /// have it, `durable()`.
    std::uint64_t applied() const {
        auto const lock = session_.lock();
        return least([&](detail::connection const& server) { return server.applied_of(session_.position()); });
    }
    std::uint64_t durable() const {
        auto const lock = session_.lock();
        return least([&](detail::connection const& server) { return server.durable_of(session_.position()); });
    }
    /// Whether a server knows that this worker has stopped, as from a checkpoint of the end. Then all that it has pushed is everywhere,
    /// for good, and `stop` is the only call that is left: others are a sequence_error. It tells those servers that do not know yet.
    bool has_stopped() const {
        auto const lock = session_.lock();
        return knows_of_stop();
    }

private:
    // That a thread is in a call which is for one.
    class alone {
    public:
        explicit alone(bool& there) : there_(there) { there_ = true; }
        alone(alone const&) = delete;
        alone& operator=(alone const&) = delete;
        ~alone() { there_ = false; }

    private:
        bool& there_;
    };
    struct given_keys {
        std::vector<std::uint64_t> keys;
        bool are_signed;
    };

    worker(std::unique_ptr<detail::any_messenger> ranks, worker_options options)
        : options_(checked(*ranks, options)),
          session_(std::move(ranks), static_cast<std::size_t>(options.num_servers)) {
        auto lock = session_.lock();
        session_.begin(lock);
        session_.set_position(least([](detail::connection const& server) { return server.had(); }));
        stopping_ = knows_of_stop();
        stopped_ = !session_.any_server([&](std::size_t s) { return !session_.server(s).knows_of_stop(); });
    }
    static worker_options checked(detail::any_messenger const& ranks, worker_options const& options) {
        int const rank = ranks.rank(), size = ranks.size();
        if (options.num_servers < 1 || options.num_servers >= size)
            detail::fail<value_error>(
                {"worker_options.num_servers = ", options.num_servers, ": must be in [1, ", size, ")"});
        if (rank < options.num_servers)
            detail::fail<value_error>(
                {"worker: rank ", rank, " is a server: must be in [", options.num_servers, ", ", size, ")"});
        if (options.max_in_flight == 0 || options.max_kept == 0)
            detail::fail<value_error>({"worker_options: max_in_flight = ", options.max_in_flight,
                                       ", max_kept = ", options.max_kept, ": must be > 0"});
        return options;
    }

    bool knows_of_stop() const {
        return session_.any_server([&](std::size_t s) { return session_.server(s).knows_of_stop(); });
    }

    // ---- pull and push, whose arguments are bytes

    void pull_all(std::string_view name, detail::wire_element element, std::span<std::byte> out, std::size_t elements) {
        auto lock = session_.lock();
        require_open("pull");
        auto const& of = session_.parameters().parameter("pull", name, element, false);
        require_size("pull", of, elements, of.entry.total, out.data());
        std::vector<detail::question> all;
        for (detail::share const& x : of.shares) {
            detail::question& one = all.emplace_back(about_pull(of, x.server));
            one.bytes = static_cast<std::size_t>(x.size) * bytes_of(element);
            one.out = out.data() + static_cast<std::size_t>(x.first) * bytes_of(element);
        }
        session_.ask(lock, all, "pull");
    }
    void pull_rows(std::string_view name, detail::wire_element element, given_keys const& given,
                   std::span<std::byte> out, std::size_t elements) {
        auto lock = session_.lock();
        require_open("pull");
        auto const& of = session_.parameters().parameter("pull", name, element, true);
        require_ids(of, given);
        require_size("pull", of, elements, given.keys.size() * of.entry.width, out.data());
        std::vector<detail::question> all;
        for (detail::share const& x : of.shares) {
            detail::question& one = all.emplace_back(about_pull(of, x.server));
            one.bytes = static_cast<std::size_t>(of.entry.width) * bytes_of(element);
            one.out = out.data();
            one.is_rows = true;
            auto own = session_.parameters().keys_on(x.server, given.keys);
            one.keys = std::move(own.keys);
            one.places = std::move(own.places);
        }
        session_.ask(lock, all, "pull");
    }
    detail::question about_pull(detail::known_parameter const& of, std::size_t server) {
        auto out = session_.about(detail::wire_kind::pull, server);
        out.header.element = of.entry.element;
        out.header.parameter = of.hash;
        return out;
    }
    void push_all(std::string_view name, detail::wire_element element, std::span<std::byte const> from,
                  std::size_t elements) {
        auto lock = session_.lock();
        auto const& of = to_push(name, element, false);
        require_size("push", of, elements, of.entry.total, from.data());
        make_room(lock, of);
        std::vector<detail::session::letter> all;
        for (detail::share const& x : of.shares) {
            auto const piece = from.subspan(static_cast<std::size_t>(x.first) * bytes_of(element),
                                            static_cast<std::size_t>(x.size) * bytes_of(element));
            session_.write(all, x.server, header_of_push(of), {}, static_cast<std::size_t>(x.size),
                           [&](detail::wire_writer& out) { out.append(piece.data(), piece.size()); });
        }
        session_.send_all(std::move(all));
    }
    void push_rows(std::string_view name, detail::wire_element element, given_keys const& given,
                   std::span<std::byte const> from, std::size_t elements) {
        auto lock = session_.lock();
        auto const& of = to_push(name, element, true);
        require_ids(of, given);
        require_size("push", of, elements, given.keys.size() * of.entry.width, from.data());
        make_room(lock, of);
        std::vector<detail::session::letter> all;
        std::size_t const width = static_cast<std::size_t>(of.entry.width), bytes = width * bytes_of(element);
        for (detail::share const& x : of.shares) {
            auto const own = session_.parameters().keys_on(x.server, given.keys);
            session_.write(all, x.server, header_of_push(of), own.keys, own.keys.size() * width,
                           [&](detail::wire_writer& out) {
                               for (std::size_t const row : own.places) out.append(from.data() + row * bytes, bytes);
                           });
        }
        session_.send_all(std::move(all));
    }
    detail::known_parameter const& to_push(std::string_view name, detail::wire_element element, bool rows) const {
        require_open("push");
        auto const& of = session_.parameters().parameter("push", name, element, rows);
        if (!of.pulled())
            detail::fail<sequence_error>(
                {"push: rank ", session_.rank(), " has not pulled ", of.entry.name, ": pull it first"});
        return of;
    }
    detail::wire_header header_of_push(detail::known_parameter const& of) const {
        auto out = session_.header(detail::wire_kind::push);
        if (!options_.check_elements) out.flags = detail::wire_flags::unchecked;
        out.element = of.entry.element;
        out.parameter = of.hash;
        return out;
    }

    // ---- what is refused

    template <class Keys> static given_keys keys_of(Keys const& keys) {
        using key = std::remove_const_t<gradstep::detail::element_type<Keys const>>;
        static_assert(std::is_integral_v<key>, "gradstep: keys are std::uint64_t, ids std::int32_t or std::int64_t");
        auto const all = gradstep::detail::as_span<key const, host_memory>(keys);
        return {{all.begin(), all.end()}, std::is_signed_v<key>};
    }
    // Ids of a gs::table are numbers; of a keyed one the bits of a key count.
    static void require_ids(detail::known_parameter const& of, given_keys const& given) {
        if (of.entry.total == 0 || !given.are_signed) return;
        for (std::uint64_t const key : given.keys)
            if (auto const id = static_cast<std::int64_t>(key); id < 0)
                detail::fail<value_error>({"there is no row ", id, ": must be >= 0"});
    }
    void require_size(char const* call, detail::known_parameter const& of, std::uint64_t given, std::uint64_t expected,
                      void const* memory) const {
        if (given != expected)
            detail::fail<size_error>({call, ": ", of.entry.name, ": rank ", session_.rank(), " has ", given,
                                      " elements: must have ", expected});
        if (memory == nullptr && given != 0)
            detail::fail<buffer_error>({call, ": ", of.entry.name, ": the memory is null: give ", given, " elements"});
    }
    void require_open(char const* call) const {
        if (stopping_ || stopped_)
            detail::fail<sequence_error>(
                {call, ": rank ", session_.rank(), " has called stop, which is the last call"});
        session_.throw_failure();
    }

    // ---- what is waited for

    // The least position(server) of those that serve something.
    template <class Position> std::uint64_t least(Position const& position) const {
        std::optional<std::uint64_t> out;
        for (std::size_t s = 0; s != session_.num_servers(); ++s) {
            if (!session_.parameters().serves(s)) continue;
            std::uint64_t const own = position(session_.server(s));
            out = std::min(out.value_or(own), own);
        }
        return *out;
    }
    void wait_for_pushes(std::unique_lock<std::mutex>& lock, char const* call) {
        session_.wait(lock, call, [&](std::size_t s) { return !session_.server(s).in_flight().empty(); });
    }
    // For another push to the servers of a parameter.
    void make_room(std::unique_lock<std::mutex>& lock, detail::known_parameter const& of) {
        auto const is_busy = [&](std::size_t s) {
            auto const& server = session_.server(s);
            return of.is_on(s) && (!server.is_open() || server.in_flight().size() >= options_.max_in_flight);
        };
        session_.wait(lock, "push", is_busy);
        auto const is_full = [&](std::size_t s) {
            return of.is_on(s) && session_.server(s).kept().size() >= options_.max_kept;
        };
        while (session_.any_server(is_full)) { // again where another thread has taken the room
            session_.wait(lock, "push",
                          [&](std::size_t s) { return is_full(s) && !session_.server(s).in_flight().empty(); });
            save(lock, "push", is_full);
            session_.wait(lock, "push", is_busy);
        }
        require_open("push");
    }
    // Has those servers that write checkpoints write one.
    template <class Which> void save(std::unique_lock<std::mutex>& lock, char const* call, Which const& which) {
        auto all = session_.about_all(detail::wire_kind::save,
                                      [&](std::size_t s) { return session_.server(s).is_durable() && which(s); });
        session_.ask(lock, all, call);
    }

    worker_options options_;
    detail::session session_;
    std::uint64_t barrier_ = 0; // the position of one that was begun and not passed
    bool at_barrier_ = false, at_stop_ = false, stopping_ = false, stopped_ = false; // under the session's lock
};

} // namespace GRADSTEP_ABI
} // namespace gradstep::distributed
