#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/buffer.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/stable_hash.hpp>
#include <gradstep/distributed/communicator.hpp>
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

inline namespace GRADSTEP_ISA {
namespace detail {

// A messenger whatever its type is, so that workers are compiled once.
class any_messenger {
public:
    virtual ~any_messenger() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual std::chrono::milliseconds timeout() const = 0;
    virtual bool allows_threads() const = 0;
    virtual void send(int to, std::vector<std::byte> bytes) = 0;
    virtual std::optional<message> receive(std::chrono::milliseconds wait) = 0;
    virtual void reuse(std::vector<std::byte> bytes) = 0;
};
template <messenger M> class messenger_of final : public any_messenger {
public:
    explicit messenger_of(M& of) : of_(of) {}
    int rank() const override { return of_.rank(); }
    int size() const override { return of_.size(); }
    std::chrono::milliseconds timeout() const override { return of_.timeout(); }
    bool allows_threads() const override { return of_.allows_threads(); }
    void send(int to, std::vector<std::byte> bytes) override { of_.send(to, std::move(bytes)); }
    std::optional<message> receive(std::chrono::milliseconds wait) override { return of_.receive(wait); }
    void reuse(std::vector<std::byte> bytes) override { detail::reuse(of_, std::move(bytes)); }

private:
    M& of_;
};

} // namespace detail

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
    /// Throws as `pull`, and sequence_error for a parameter that this worker has not pulled.
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
    /// Waits until every worker that has not stopped has called it as often, and all that they pushed before is applied. One thread
    /// of a worker may be at a barrier: a second one gets a sequence_error.
    void barrier() {
        std::unique_lock lock(mutex_);
        require_open("barrier");
        if (at_barrier_)
            detail::fail<sequence_error>(
                {"barrier: another thread of rank ", rank_, " is at a barrier: one thread must call it for all"});
        alone const entered(at_barrier_);
        wait_for_pushes(lock, "barrier");
        ++position_;
        std::vector<question> all;
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (serves(s) && position_ > servers_[s].forgotten) // else it was passed before this worker began
                all.push_back(about(detail::wire_kind::barrier, s));
        ask(lock, all, "barrier", [&] {
            for (question& one : all) tell(one.server, one.header, position_, {}, 0, [](auto&) {});
        });
    }
    /// Waits until all that it has pushed is applied, and in the servers' checkpoints if they write any, says that this worker takes no
    /// more part, and waits until all others have said so too: the messenger may then serve another job. The next call is a
    /// sequence_error; another `stop` does nothing, or goes on with one that has thrown for the time that it took. One thread of a
    /// worker may be at a stop, as at a barrier.
    void stop() {
        std::unique_lock lock(mutex_);
        if (stopped_) return;
        throw_failure();
        if (at_stop_)
            detail::fail<sequence_error>(
                {"stop: another thread of rank ", rank_, " is at a stop: one thread must call it for all"});
        alone const entered(at_stop_);
        wait_for_pushes(lock, "stop");
        // First all of it everywhere: a server that dies between may need what this worker would compute with the help of all.
        save(lock, "stop", [&](std::size_t s) { return servers_[s].durable < servers_[s].applied; });
        std::vector<question> all;
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (!servers_[s].stopped) all.push_back(about(detail::wire_kind::stop, s));
        stopping_ = true;
        ask(lock, all, "stop");
        stopped_ = true;
    }

    /// How many pushes and barriers of this worker lie behind, `position()`. When it begins: those that all servers which have a part of
    /// anything have for good, in their checkpoints, or, where they write none, at all. `go_on_from` goes back to a smaller number, as
    /// the beginning of the step in whose middle that is: of what is pushed again, servers that have it already apply nothing. Throws
    /// value_error for a larger one, and sequence_error after the first push.
    std::uint64_t position() const {
        std::lock_guard const lock(mutex_);
        return position_;
    }
    void go_on_from(std::uint64_t position) {
        std::lock_guard const lock(mutex_);
        if (has_sent_) detail::fail<sequence_error>("go_on_from: something has been pushed already: call it before");
        if (position > position_)
            detail::fail<value_error>({"go_on_from: position = ", position, ": must be at most ", position_,
                                       ", up to which the servers have applied all"});
        position_ = position;
    }
    /// How many workers the job has, `num_workers()`, and the `size(name)` of a dense parameter. Throws value_error for an unknown name,
    /// and for rows.
    int num_workers() const { return ranks_->size() - options_.num_servers; }
    std::uint64_t size(std::string_view name) {
        std::lock_guard const lock(mutex_);
        return parameter("size", name, {}, false).entry.total;
    }
    /// The position up to which all servers have applied what this worker has pushed, `applied()`, and up to which their checkpoints
    /// have it, `durable()`.
    std::uint64_t applied() const {
        std::lock_guard const lock(mutex_);
        return least(
            [&](server_state const& of) { return of.in_flight.empty() ? position_ : of.in_flight.front() - 1; });
    }
    std::uint64_t durable() const {
        std::lock_guard const lock(mutex_);
        return least([&](server_state const& of) {
            return !of.durably ? 0 : of.kept.empty() ? position_ : of.kept.front().position - 1;
        });
    }
    /// Whether the servers know that this worker has stopped: from a checkpoint of the end.
    bool has_stopped() const {
        std::lock_guard const lock(mutex_);
        return stopped_;
    }

private:
    using clock = std::chrono::steady_clock;

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
    struct sent {
        std::uint64_t position;
        std::vector<std::byte> bytes;
    };
    struct server_state {
        bool connected = false, durably = false, stopped = false;
        clock::time_point heard = {}; // when something came last
        std::uint64_t number = 0;     // what the server has drawn
        std::uint64_t previous = 0;   // the last position that was sent to it
        std::uint64_t forgotten = 0;  // up to here nothing can be sent again
        std::uint64_t applied = 0, durable = 0;
        detail::wire_service service = {};
        std::deque<std::uint64_t> in_flight;
        std::deque<sent> kept;
    };
    struct share { // of a parameter, on a server
        std::size_t server;
        std::uint64_t first, size;
        bool pulled = false;
    };
    struct known {
        detail::wire_entry entry;
        std::uint64_t hash;
        std::vector<share> shares; // by server

        bool pulled() const {
            return std::all_of(shares.begin(), shares.end(), [](share const& x) { return x.pulled; });
        }
    };
    // What was asked and has no answer yet; where the answer goes to.
    struct question {
        std::size_t server;
        detail::wire_header header;
        std::vector<std::uint64_t> keys = {};
        std::byte* out = nullptr;
        bool is_rows = false;
        std::size_t bytes = 0;              // of a row, or of the whole piece
        std::vector<std::size_t> rows = {}; // the place of each key's row
        bool answered = false;
        std::string refusal = {};
    };

    worker(std::unique_ptr<detail::any_messenger> ranks, worker_options options)
        : ranks_(std::move(ranks)), options_(options), rank_(ranks_->rank()) {
        if (options.num_servers < 1 || options.num_servers >= ranks_->size())
            detail::fail<value_error>(
                {"worker_options.num_servers = ", options.num_servers, ": must be in [1, ", ranks_->size(), ")"});
        if (rank_ < options.num_servers)
            detail::fail<value_error>(
                {"worker: rank ", rank_, " is a server: must be in [", options.num_servers, ", ", ranks_->size(), ")"});
        if (options.max_in_flight == 0 || options.max_kept == 0)
            detail::fail<value_error>({"worker_options: max_in_flight = ", options.max_in_flight,
                                       ", max_kept = ", options.max_kept, ": must be > 0"});
        servers_.resize(static_cast<std::size_t>(options.num_servers));
        std::unique_lock lock(mutex_);
        for (std::size_t s = 0; s != servers_.size(); ++s) say_hello(s);
        wait(lock, "worker", [&](std::size_t s) { return !servers_[s].connected; });
        require_all_served();
        position_ = least([](server_state const& of) { return of.forgotten; });
        stopped_ = std::all_of(servers_.begin(), servers_.end(), [](auto const& of) { return of.stopped; });
    }

    struct given_keys {
        std::vector<std::uint64_t> keys;
        bool are_signed;
    };
    template <class Keys> static given_keys keys_of(Keys const& keys) {
        using key = std::remove_const_t<gradstep::detail::element_type<Keys const>>;
        static_assert(std::is_integral_v<key>, "gradstep: keys are std::uint64_t, ids std::int32_t or std::int64_t");
        auto const all = gradstep::detail::as_span<key const, host_memory>(keys);
        return {{all.begin(), all.end()}, std::is_signed_v<key>};
    }
    // Ids of a gs::table are numbers; of a keyed one the bits of a key count.
    void require_ids(known const& of, given_keys const& given) const {
        if (of.entry.total == 0 || !given.are_signed) return;
        for (std::uint64_t const key : given.keys)
            if (auto const id = static_cast<std::int64_t>(key); id < 0)
                detail::fail<value_error>({"there is no row ", id, ": must be >= 0"});
    }

    // ---- the calls

    void pull_all(std::string_view name, detail::wire_element element, std::span<std::byte> out, std::size_t elements) {
        std::unique_lock lock(mutex_);
        require_open("pull");
        known& of = parameter("pull", name, element, false);
        require_size("pull", of, elements, of.entry.total, out.data());
        std::vector<question> all;
        for (share const& x : of.shares) {
            question one = about(detail::wire_kind::pull, x.server);
            one.header.element = element;
            one.header.parameter = of.hash;
            one.bytes = static_cast<std::size_t>(x.size) * bytes_of(element);
            one.out = out.data() + static_cast<std::size_t>(x.first) * bytes_of(element);
            all.push_back(std::move(one));
        }
        ask(lock, all, "pull");
    }
    void pull_rows(std::string_view name, detail::wire_element element, given_keys const& given,
                   std::span<std::byte> out, std::size_t elements) {
        std::unique_lock lock(mutex_);
        require_open("pull");
        auto const& keys = given.keys;
        known& of = parameter("pull", name, element, true);
        require_ids(of, given);
        require_size("pull", of, elements, keys.size() * of.entry.width, out.data());
        std::vector<question> all;
        for (share const& x : of.shares) {
            question one = about(detail::wire_kind::pull, x.server);
            one.header.element = element;
            one.header.parameter = of.hash;
            one.bytes = static_cast<std::size_t>(of.entry.width) * bytes_of(element);
            one.out = out.data();
            one.is_rows = true;
            for (std::size_t i = 0; i != keys.size(); ++i) {
                if (owner(of, keys[i]) != x.server) continue;
                one.keys.push_back(keys[i]);
                one.rows.push_back(i);
            }
            all.push_back(std::move(one));
        }
        ask(lock, all, "pull");
    }
    void push_all(std::string_view name, detail::wire_element element, std::span<std::byte const> from,
                  std::size_t elements) {
        std::unique_lock lock(mutex_);
        known& of = to_push(name, element, false);
        require_size("push", of, elements, of.entry.total, from.data());
        make_room(lock, of);
        std::uint64_t const position = ++position_;
        for (share const& x : of.shares) {
            auto const header = header_of_push(of, element);
            auto const piece = from.subspan(static_cast<std::size_t>(x.first) * bytes_of(element),
                                            static_cast<std::size_t>(x.size) * bytes_of(element));
            tell(x.server, header, position, {}, static_cast<std::size_t>(x.size),
                 [&](detail::wire_writer& out) { out.append(piece.data(), piece.size()); });
        }
    }
    void push_rows(std::string_view name, detail::wire_element element, given_keys const& given,
                   std::span<std::byte const> from, std::size_t elements) {
        std::unique_lock lock(mutex_);
        auto const& keys = given.keys;
        known& of = to_push(name, element, true);
        require_ids(of, given);
        require_size("push", of, elements, keys.size() * of.entry.width, from.data());
        make_room(lock, of);
        std::uint64_t const position = ++position_;
        std::size_t const width = static_cast<std::size_t>(of.entry.width), bytes = width * bytes_of(element);
        for (share const& x : of.shares) {
            std::vector<std::uint64_t> own;
            std::vector<std::size_t> rows;
            for (std::size_t i = 0; i != keys.size(); ++i) {
                if (owner(of, keys[i]) != x.server) continue;
                own.push_back(keys[i]);
                rows.push_back(i);
            }
            tell(x.server, header_of_push(of, element), position, own, own.size() * width,
                 [&](detail::wire_writer& out) {
                     for (std::size_t const row : rows) out.append(from.data() + row * bytes, bytes);
                 });
        }
    }
    known& to_push(std::string_view name, detail::wire_element element, bool rows) {
        require_open("push");
        known& of = parameter("push", name, element, rows);
        if (!of.pulled())
            detail::fail<sequence_error>({"push: rank ", rank_, " has not pulled ", of.entry.name, ": pull it first"});
        return of;
    }
    detail::wire_header header_of_push(known const& of, detail::wire_element element) const {
        detail::wire_header out;
        out.kind = detail::wire_kind::push;
        if (!options_.check_elements) out.flags = detail::wire_flags::unchecked;
        out.element = element;
        out.parameter = of.hash;
        return out;
    }
    std::size_t owner(known const& of, std::uint64_t key) const {
        if (servers_.size() == 1) return of.shares[0].server;
        return shard_of(key, static_cast<std::uint32_t>(servers_.size()));
    }
    // A parameter by its name, which has this element, if one is given, and form.
    known& parameter(char const* call, std::string_view name, detail::wire_element element, bool rows) {
        for (auto& of : known_) {
            if (of->entry.name != name) continue;
            if (of->entry.is_rows != rows)
                detail::fail<value_error>(
                    {call, ": ", name, rows ? " is no table: give no keys" : " is a table: give keys"});
            if (of->entry.element != element && element != detail::wire_element::none)
                detail::fail<value_error>({call, ": ", name, " is of ", name_of(of->entry.element), ": rank ", rank_,
                                           " has ", name_of(element)});
            return *of;
        }
        std::string all;
        for (auto const& of : known_) all += (all.empty() ? "" : ", ") + of->entry.name;
        detail::fail<value_error>({call, ": there is no parameter ", name, "; there is ", all.empty() ? "none" : all});
    }
    void require_size(char const* call, known const& of, std::uint64_t given, std::uint64_t expected,
                      void const* memory) const {
        if (given != expected)
            detail::fail<size_error>(
                {call, ": ", of.entry.name, ": rank ", rank_, " has ", given, " elements: must have ", expected});
        if (memory == nullptr && given != 0)
            detail::fail<buffer_error>({call, ": ", of.entry.name, ": the memory is null: give ", given, " elements"});
    }
    void require_open(char const* call) const {
        if (stopping_ || stopped_)
            detail::fail<sequence_error>({call, ": rank ", rank_, " has called stop, which is the last call"});
        throw_failure();
    }
    void throw_failure() const {
        if (failure_.empty()) return;
        if (failure_is_of_ranks_) detail::fail<rank_error>(failure_);
        detail::fail<value_error>(failure_);
    }
    // The least position(server) of those that serve something.
    template <class Position> std::uint64_t least(Position const& position) const {
        std::optional<std::uint64_t> out;
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (serves(s)) out = std::min(out.value_or(position(servers_[s])), position(servers_[s]));
        return *out;
    }
    // Whether a server has a part of anything; where none has, they all count as if.
    bool serves(std::size_t s) const {
        return known_.empty() || std::any_of(known_.begin(), known_.end(), [s](auto const& of) {
                   return std::any_of(of->shares.begin(), of->shares.end(),
                                      [s](share const& x) { return x.server == s; });
               });
    }

    // ---- what is sent

    void send(std::size_t to, std::vector<std::byte> bytes) { ranks_->send(static_cast<int>(to), std::move(bytes)); }
    // To a server, at a position, which is kept as long as it may have to be sent again; not where the server has it already.
    template <class Write>
    void tell(std::size_t to, detail::wire_header header, std::uint64_t position, std::span<std::uint64_t const> keys,
              std::size_t elements, Write const& write) {
        server_state& of = servers_[to];
        has_sent_ = true;
        if (position <= of.forgotten) return; // the server has it since before this worker began
        header.rank = static_cast<std::uint32_t>(rank_);
        header.session = session_;
        header.sequence = position;
        header.previous = of.previous;
        detail::wire_writer out(header, keys.size(), elements);
        out.append(keys);
        write(out);
        auto bytes = out.take();
        of.previous = position;
        of.in_flight.push_back(position);
        if (of.durably) of.kept.push_back({position, bytes});
        else of.forgotten = position;
        send(to, std::move(bytes));
    }
    void say_hello(std::size_t to) {
        servers_[to].connected = false;
        detail::wire_header header;
        header.kind = detail::wire_kind::hello;
        header.rank = static_cast<std::uint32_t>(rank_);
        header.session = session_;
        std::vector<std::uint64_t> pulled;
        for (auto const& of : known_)
            for (share const& x : of->shares)
                if (x.server == to && x.pulled) pulled.push_back(of->hash);
        std::string const text = detail::wire_description(options_.num_servers, ranks_->size());
        detail::wire_writer out(header, pulled.size(), text.size());
        out.append(pulled);
        out.append(text.data(), text.size());
        send(to, out.take());
    }
    question about(detail::wire_kind kind, std::size_t server) {
        question out;
        out.server = server;
        out.header.kind = kind;
        out.header.rank = static_cast<std::uint32_t>(rank_);
        out.header.session = session_;
        out.header.request = ++requests_;
        return out;
    }
    void send(question& one) {
        server_state& of = servers_[one.server];
        if (!of.connected) return; // it is sent with the welcome
        one.header.previous = of.previous;
        one.header.sequence = std::max(position_, of.previous);
        detail::wire_writer out(one.header, one.keys.size(), 0);
        out.append(one.keys);
        send(one.server, out.take());
    }
    // Asks, and waits for all answers.
    void ask(std::unique_lock<std::mutex>& lock, std::span<question> all, char const* call) {
        ask(lock, all, call, [&] {
            for (question& one : all) send(one);
        });
    }
    template <class Send>
    void ask(std::unique_lock<std::mutex>& lock, std::span<question> all, char const* call, Send const& now) {
        struct registered {
            worker& self;
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
            if (!one.refusal.empty()) detail::fail<value_error>(one.refusal);
    }
    void wait_for_pushes(std::unique_lock<std::mutex>& lock, char const* call) {
        wait(lock, call, [&](std::size_t s) { return !servers_[s].in_flight.empty(); });
    }
    // For another push to the servers of a parameter.
    void make_room(std::unique_lock<std::mutex>& lock, known const& of) {
        auto const concerns = [&](std::size_t s) {
            return std::any_of(of.shares.begin(), of.shares.end(), [s](share const& x) { return x.server == s; });
        };
        auto const is_busy = [&](std::size_t s) {
            return concerns(s) && (!servers_[s].connected || servers_[s].in_flight.size() >= options_.max_in_flight);
        };
        wait(lock, "push", is_busy);
        auto const is_full = [&](std::size_t s) { return concerns(s) && servers_[s].kept.size() >= options_.max_kept; };
        auto const any_is_full = [&] {
            for (std::size_t s = 0; s != servers_.size(); ++s)
                if (is_full(s)) return true;
            return false;
        };
        while (any_is_full()) { // again where another thread has taken the room
            wait(lock, "push", [&](std::size_t s) { return is_full(s) && !servers_[s].in_flight.empty(); });
            save(lock, "push", is_full);
            wait(lock, "push", is_busy);
        }
        require_open("push");
    }
    // Has those servers that write checkpoints write one.
    template <class Which> void save(std::unique_lock<std::mutex>& lock, char const* call, Which const& which) {
        std::vector<question> all;
        for (std::size_t s = 0; s != servers_.size(); ++s)
            if (servers_[s].durably && which(s)) all.push_back(about(detail::wire_kind::save, s));
        ask(lock, all, call);
    }

    // ---- what comes

    // Waits while owes(server) of any; one of the threads that wait takes what comes for all of them.
    template <class Owes> void wait(std::unique_lock<std::mutex>& lock, char const* call, Owes const& owes) {
        auto const any = [&] {
            for (std::size_t s = 0; s != servers_.size(); ++s)
                if (owes(s)) return true;
            return false;
        };
        throw_failure();
        if (!any()) return;
        auto const timeout = ranks_->timeout();
        auto const begun = clock::now();
        auto sign = begun + timeout / 4;
        detail::idle_time idle;
        while (any()) {
            if (!pumps_) pump(lock, idle);
            else arrived_.wait_for(lock, std::chrono::milliseconds(5));
            throw_failure();
            auto const now = clock::now();
            std::vector<int> missing;
            for (std::size_t s = 0; s != servers_.size(); ++s)
                if (owes(s) && now > std::max(begun, servers_[s].heard) + 2 * timeout)
                    missing.push_back(static_cast<int>(s));
            if (!missing.empty()) detail::refuse_wait(rank_, call, 2 * timeout, missing);
            if (now > sign) { // those that have answered are not to think that this rank is silent
                sign = now + timeout / 4;
                for (std::size_t s = 0; s != servers_.size(); ++s)
                    if (servers_[s].connected && !owes(s)) say_alive(s);
            }
        }
    }
    void say_alive(std::size_t to) {
        detail::wire_header header;
        header.kind = detail::wire_kind::alive;
        header.rank = static_cast<std::uint32_t>(rank_);
        header.session = session_;
        send(to, detail::wire_writer(header, 0, 0).take());
    }
    void pump(std::unique_lock<std::mutex>& lock, detail::idle_time& idle) {
        std::optional<message> got;
        pumps_ = true;
        {
            struct ended {
                worker& self;
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
        using detail::wire_kind;
        if (got.from < 0 || static_cast<std::size_t>(got.from) >= servers_.size())
            return; // of another use of the messenger
        auto const message = detail::wire_message::read(got.bytes, got.from);
        auto const& h = message.header;
        auto const s = static_cast<std::size_t>(got.from);
        server_state& of = servers_[s];
        of.heard = clock::now();
        bool const ended = h.kind == wire_kind::welcome && (h.flags & detail::wire_flags::stopped) != 0;
        bool const of_any = h.kind == wire_kind::begun || h.kind == wire_kind::refusal || ended;
        if (h.session != session_ && (h.session != 0 || !of_any)) return; // to one before
        switch (h.kind) {
        case wire_kind::begun:
            if (h.request != of.number) say_hello(s);
            return;
        case wire_kind::welcome:
            return take_welcome(s, message);
        case wire_kind::weights:
            take_positions(of, h);
            return take_weights(s, message);
        case wire_kind::applied:
            return take_positions(of, h);
        case wire_kind::rewind:
            return send_again(s, h.sequence);
        case wire_kind::released:
            take_positions(of, h);
            for (question* const one : open_)
                if (one->server == s && one->header.request == h.request) one->answered = true;
            return;
        case wire_kind::refusal:
            for (question* const one : open_)
                if (one->server == s && one->header.request == h.request && !one->answered) {
                    one->refusal = message.text();
                    one->answered = true;
                }
            if (h.request != 0) return; // of a question, which was perhaps asked twice
            failure_ = message.text();
            failure_is_of_ranks_ = (h.flags & detail::wire_flags::of_ranks) != 0;
            return;
        default:
            detail::fail<value_error>({"a message of rank ", got.from, " is of the kind ",
                                       static_cast<std::uint32_t>(h.kind), ", which servers do not send"});
        }
    }
    void take_positions(server_state& of, detail::wire_header const& h) {
        of.applied = std::max(of.applied, h.sequence);
        of.durable = std::max(of.durable, h.previous);
        while (!of.in_flight.empty() && of.in_flight.front() <= of.applied) of.in_flight.pop_front();
        while (!of.kept.empty() && of.kept.front().position <= of.durable) {
            of.forgotten = of.kept.front().position;
            of.kept.pop_front();
        }
    }
    void take_welcome(std::size_t s, detail::wire_message const& message) {
        auto const& h = message.header;
        server_state& of = servers_[s];
        if (of.connected && of.number == h.request) return; // to a hello that was said twice
        bool const first = of.number == 0;
        take_directory(s, message);
        if (!first && h.sequence < of.forgotten) {
            failure_ = detail::joined({"server ", s, " has begun anew with what rank ", rank_, " has pushed up to ",
                                       h.sequence, ", and what came after it up to ", of.forgotten,
                                       " was not kept: give the server a checkpoint, and that which it wrote last"});
            return;
        }
        of.number = h.request;
        of.connected = true;
        of.durably = (h.flags & detail::wire_flags::durable) != 0;
        of.stopped = (h.flags & detail::wire_flags::stopped) != 0;
        of.applied = h.sequence;
        of.durable = h.previous;
        // A worker that has begun anew computes again what no checkpoint has: the server, which applies none of it twice, may need it.
        if (first) of.previous = of.forgotten = of.durably ? h.previous : h.sequence;
        take_positions(of, h);
        of.in_flight.clear();
        for (sent const& one : of.kept)
            if (one.position > of.applied) of.in_flight.push_back(one.position);
        if (of.stopped)
            for (question* const one : open_)
                if (one->server == s && one->header.kind == detail::wire_kind::stop) one->answered = true;
        send_again(s, of.applied);
    }
    // All after a position, and the questions.
    void send_again(std::size_t s, std::uint64_t after) {
        for (sent const& one : servers_[s].kept)
            if (one.position > after) send(s, one.bytes);
        for (question* const one : open_)
            if (one->server == s && !one->answered) send(*one);
    }
    void take_weights(std::size_t s, detail::wire_message const& message) {
        auto const& h = message.header;
        for (question* const one : open_) {
            if (one->server != s || one->answered || one->header.request != h.request) continue;
            std::size_t const expected = one->is_rows ? one->rows.size() * one->bytes : one->bytes;
            if (h.element != one->header.element || message.body.size() != expected)
                detail::fail<value_error>({"a message of rank ", s, " has ", message.body.size(), " bytes of ",
                                           name_of(h.element), ": must have ", expected, " of ",
                                           name_of(one->header.element)});
            for (std::size_t i = 0; i != one->rows.size(); ++i)
                std::memcpy(one->out + one->rows[i] * one->bytes, message.body.data() + i * one->bytes, one->bytes);
            if (!one->is_rows && expected != 0) std::memcpy(one->out, message.body.data(), expected);
            one->answered = true;
            for (auto const& of : known_)
                for (share& x : of->shares)
                    if (of->hash == h.parameter && x.server == s) x.pulled = true;
        }
    }
    // What a server has; and that it is what the others and the same server before have.
    void take_directory(std::size_t s, detail::wire_message const& message) {
        server_state& from = servers_[s];
        detail::wire_service const before = from.service;
        auto entries = detail::read_wire_directory(message, from.service);
        for (std::size_t other = 0; other != servers_.size(); ++other) {
            if (servers_[other].number == 0) continue;
            detail::wire_service const theirs = other == s ? before : servers_[other].service, own = from.service;
            auto const differ = [&](char const* in, gradstep::detail::piece of_other, gradstep::detail::piece of_own) {
                if (s == other)
                    detail::fail<value_error>({"server ", s, " has begun anew with another server_options.", in, ": ",
                                               of_own, " after ", of_other});
                if (s < other) std::swap(of_other, of_own);
                detail::fail<value_error>({"servers ", std::min(s, other), " and ", std::max(s, other),
                                           " differ in server_options.", in, ": ", of_other, " and ", of_own});
            };
            if (theirs.mode != own.mode)
                differ("mode", detail::wire_mode_names[static_cast<std::size_t>(theirs.mode)],
                       detail::wire_mode_names[static_cast<std::size_t>(own.mode)]);
            if (theirs.split_from != own.split_from) differ("split_from", theirs.split_from, own.split_from);
        }
        // A server that has begun anew has what it had; what it has more is for workers that begin later.
        bool const again = from.number != 0;
        for (auto const& of : known_)
            for (share const& x : of->shares)
                if (x.server == s && std::none_of(entries.begin(), entries.end(), [&](detail::wire_entry const& entry) {
                        return entry.name == of->entry.name && entry.first == x.first && entry.size == x.size;
                    }))
                    detail::fail<value_error>({"server ", s, " has begun anew without what it had of ", of->entry.name,
                                               ": add it as before"});
        for (auto& entry : entries) {
            auto found = std::find_if(known_.begin(), known_.end(),
                                      [&](auto const& of) { return of->entry.name == entry.name; });
            if (found == known_.end()) {
                if (again) continue;
                auto fresh = std::make_unique<known>();
                fresh->hash = stable_hash(std::string_view(entry.name));
                fresh->shares.push_back({s, entry.first, entry.size});
                fresh->entry = std::move(entry);
                known_.push_back(std::move(fresh));
                continue;
            }
            known& of = **found;
            detail::wire_entry const& other = of.entry;
            auto const differ = [&](char const* in, gradstep::detail::piece own, gradstep::detail::piece theirs) {
                std::size_t first = of.shares[0].server, second = s;
                if (second < first) std::swap(first, second), std::swap(own, theirs);
                detail::fail<value_error>({"servers ", first, " and ", second, " differ in ", entry.name, ": ", in, " ",
                                           theirs, " and ", own});
            };
            if (entry.element != other.element) differ("elements", name_of(entry.element), name_of(other.element));
            if (entry.is_rows != other.is_rows)
                differ("rows", entry.is_rows ? "yes" : "no", other.is_rows ? "yes" : "no");
            if (entry.total != other.total) differ("sizes", entry.total, other.total);
            if (entry.width != other.width) differ("widths", entry.width, other.width);
            if (entry.policies != other.policies) differ("policies", entry.policies, other.policies);
            bool const there =
                std::any_of(of.shares.begin(), of.shares.end(), [s](share const& x) { return x.server == s; });
            if (!there && !again) of.shares.push_back({s, entry.first, entry.size});
        }
    }

    // That the shares of the servers are all of every parameter.
    void require_all_served() const {
        for (auto const& of : known_) {
            detail::wire_entry const& entry = of->entry;
            auto const lacks = [&](std::size_t server) {
                return std::none_of(of->shares.begin(), of->shares.end(),
                                    [server](share const& x) { return x.server == server; });
            };
            auto const refuse = [&](std::initializer_list<gradstep::detail::piece> what) {
                for (std::size_t s = 0; s != servers_.size(); ++s)
                    if (lacks(s))
                        detail::fail<value_error>({"server ", s, " has nothing of ", entry.name, ", which server ",
                                                   of->shares[0].server, " has", detail::joined(what),
                                                   ": every server must add it"});
                detail::fail<value_error>({"the servers' shares of ", entry.name, " are not all of it",
                                           detail::joined(what), ": every server must add it alike"});
            };
            if (entry.is_rows) {
                if (of->shares.size() != servers_.size()) refuse({});
                continue;
            }
            std::vector<share> all = of->shares;
            std::sort(all.begin(), all.end(), [](share const& x, share const& y) {
                return x.first != y.first ? x.first < y.first : x.size < y.size;
            });
            std::uint64_t next = 0;
            for (share const& x : all) {
                if (x.first != next) break;
                next += x.size;
            }
            if (next != entry.total || all.back().first + all.back().size != next)
                refuse({", and of its ", entry.total, " elements those from ", next, " on are not on one server each"});
        }
    }

    std::unique_ptr<detail::any_messenger> ranks_;
    worker_options options_;
    int rank_;
    std::uint64_t session_ = detail::wire_number();

    mutable std::mutex mutex_;
    std::condition_variable arrived_; // something, or nobody takes what comes any more
    bool pumps_ = false, at_barrier_ = false, at_stop_ = false;
    std::vector<server_state> servers_;
    std::vector<std::unique_ptr<known>> known_;
    std::vector<question*> open_;
    std::uint64_t position_ = 0, requests_ = 0;
    bool has_sent_ = false, stopping_ = false, stopped_ = false;
    std::string failure_;
    bool failure_is_of_ranks_ = false;
};

} // namespace GRADSTEP_ISA
} // namespace gradstep::distributed
