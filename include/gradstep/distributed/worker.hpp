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
    /// Pushes that a server has not applied yet; where there are so many, the next one waits until
    /// there are fewer.
    std::size_t max_in_flight = 16;
    /// Pushes that no checkpoint of the server has yet, of servers that write them: they are kept,
    /// to be sent again. Beyond these the next push asks for a checkpoint, and waits for it. A
    /// worker has up to so many gradients in memory for each server.
    std::size_t max_kept = 1024;
    /// As server_options.check_elements, of what is pushed.
    bool check_elements = false;
};

inline namespace GRADSTEP_ABI {

/// A worker of a job with servers of parameters (`server`): four calls, whatever the servers' mode
/// is.
///
///     gs::distributed::worker worker{ranks};
///     for (std::uint64_t step = worker.position(); step != steps; ++step) {
///         worker.pull("w", weights);
///         compute(weights, gradient);
///         worker.push("w", gradient);        // begins to send, and does not wait for the step
///     }
///     worker.stop();
///
/// The messenger must outlive it. Calls may come from several threads; the pushes of one are
/// applied in their order. The memory of an argument is the caller's again when a call returns. A
/// worker has no thread of its own: between its calls a message moves if the engine moves it by
/// itself, which MPI may leave to the next call.
///
/// A server that is started again goes on from its checkpoint, and the worker sends again what that
/// has not. A worker that is started again goes on from `position()`. What does not fit the
/// parameter is refused before anything is sent; what a server refuses of a pull, the pull throws;
/// of a push, every call from then on. A server from which nothing comes for twice the messenger's
/// timeout is a rank_error that names it (after once the timeout a server names a worker that is
/// silent; to those that wait for others it says that it is there).
class worker {
public:
    /// Takes up the service of all servers, and waits for them. Throws value_error for options out
    /// of range, for a rank that is no worker's, and where servers, or this rank and they, are not
    /// alike: another version, other numbers of ranks, another mode or split_from, other elements,
    /// sizes or policies of one parameter, or one that not all servers have whose it is.
    template <messenger M>
    explicit worker(M& ranks, worker_options options = {})
        : worker(std::make_unique<detail::messenger_of<M>>(ranks), options) {}
    template <messenger M> explicit worker(M const&&, worker_options = {}) {
        static_assert(sizeof(M) == 0,
                      "gradstep: worker refers to its messenger, which must outlive it: give a variable");
    }
    worker(worker const&) = delete;
    worker& operator=(worker const&) = delete;
    ~worker();

    /// Copies the weights of a dense parameter to `out`, which has as many elements; or the rows of
    /// these keys (std::uint64_t, or std::int64_t, whose bits count; of a gs::table ids, >= 0), in
    /// their order, to `out` of keys.size() x width. Of the synchronous mode they have all that
    /// this worker has pushed, with what the others pushed in the same steps. Throws value_error
    /// for an unknown name, another element or a negative id, size_error, buffer_error, and what
    /// the class says.
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
    /// Sends a gradient, or a delta, and does not wait for the step, but for others of its own
    /// where max_in_flight are on their way. Throws as `pull`, and sequence_error for a parameter
    /// that this worker has not pulled: nothing has been sent then. Where memory or the engine
    /// fails while it sends, it throws that, and every later call is a rank_error that says so: a
    /// worker that is started anew goes on from `position()`, and nothing is applied twice.
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
    /// Waits until every worker that has not stopped has called it as often, and all that they
    /// pushed before is applied. Called again after one that has thrown, it waits for the same. One
    /// thread of a worker may be at a barrier: a second one gets a sequence_error.
    void barrier();
    /// Waits until all that it has pushed is applied, and in the servers' checkpoints if they write
    /// any, says that this worker takes no more part, and waits until all others have said so too:
    /// the messenger may then serve another job. The next call is a sequence_error; another `stop`
    /// does nothing, or goes on with one that has thrown for the time that it took. One thread of a
    /// worker may be at a stop, as at a barrier.
    void stop();

    /// How many pushes and barriers of this worker lie behind, `position()`. When it begins: those
    /// that all servers which have a part of anything have for good, in their checkpoints, or,
    /// where they write none, at all. `go_on_from` goes back to a smaller number, as the beginning
    /// of the step in whose middle that is: of what is pushed again, servers that have it already
    /// apply nothing. Throws value_error for a larger one, and sequence_error after the first push.
    std::uint64_t position() const;
    void go_on_from(std::uint64_t position);
    /// How many workers the job has, `num_workers()`, and the `size(name)` of a dense parameter.
    /// Throws value_error for an unknown name, and for rows.
    int num_workers() const { return session_.num_workers(); }
    std::uint64_t size(std::string_view name);
    /// The position up to which all servers have applied what this worker has pushed, `applied()`,
    /// and up to which their checkpoints have it, `durable()`.
    std::uint64_t applied() const;
    std::uint64_t durable() const;
    /// Whether a server knows that this worker has stopped, as from a checkpoint of the end. Then
    /// all that it has pushed is everywhere, for good, and `stop` is the only call that is left:
    /// others are a sequence_error. It tells those servers that do not know yet.
    bool has_stopped() const;

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

    worker(std::unique_ptr<detail::any_messenger> ranks, worker_options options);
    static worker_options checked(detail::any_messenger const& ranks, worker_options const& options);

    bool knows_of_stop() const;

    // ---- pull and push, whose arguments are bytes

    void pull_all(std::string_view name, detail::wire_element element, std::span<std::byte> out, std::size_t elements);
    void pull_rows(std::string_view name, detail::wire_element element, given_keys const& given,
                   std::span<std::byte> out, std::size_t elements);
    detail::pending_request about_pull(detail::known_parameter const& of, std::size_t server);
    void push_all(std::string_view name, detail::wire_element element, std::span<std::byte const> from,
                  std::size_t elements);
    void push_rows(std::string_view name, detail::wire_element element, given_keys const& given,
                   std::span<std::byte const> from, std::size_t elements);
    detail::known_parameter const& to_push(std::string_view name, detail::wire_element element, bool rows) const;
    detail::wire_header header_of_push(detail::known_parameter const& of) const;

    // ---- what is refused

    template <class Keys> static given_keys keys_of(Keys const& keys) {
        using key = std::remove_const_t<gradstep::detail::element_type<Keys const>>;
        static_assert(std::is_integral_v<key>, "gradstep: keys are std::uint64_t, ids std::int32_t or std::int64_t");
        auto const all = gradstep::detail::as_span<key const, host_memory>(keys);
        return {{all.begin(), all.end()}, std::is_signed_v<key>};
    }
    // Ids of a gs::table are numbers; of a keyed one the bits of a key count.
    static void require_ids(detail::known_parameter const& of, given_keys const& given);
    void require_size(char const* call, detail::known_parameter const& of, std::uint64_t given, std::uint64_t expected,
                      void const* memory) const;
    void require_open(char const* call) const;

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
    void wait_for_pushes(std::unique_lock<std::mutex>& lock, char const* call);
    // For another push to the servers of a parameter.
    void make_room(std::unique_lock<std::mutex>& lock, detail::known_parameter const& of);
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

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/worker.ipp>
#endif
