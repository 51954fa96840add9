#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/detail/any_messenger.hpp>
#include <gradstep/distributed/detail/session.hpp>
#include <gradstep/distributed/detail/wire.hpp>
#include <gradstep/memory/buffer.hpp>

namespace gradstep::distributed {
/// The options of a worker.
struct worker_options {
    /// The same as server_options.num_servers.
    int num_servers = 1;
    /// The maximal number of pushes that a server has not applied yet. The next push waits until
    /// there are fewer.
    std::size_t max_in_flight = 16;
    /// The maximal number of pushes that no checkpoint contains yet, if the server writes
    /// checkpoints. The worker keeps them in memory, for each server, to send them again. The next
    /// push asks the server for a checkpoint and waits for it.
    std::size_t max_kept = 1024;
    /// The same as server_options.check_elements, for pushes.
    bool check_elements = false;
    /// The same as server_options.job.
    std::uint32_t job = 0;
};
} // namespace gradstep::distributed

namespace gradstep::distributed::inline GRADSTEP_ABI {
/// A worker of a job with parameter servers (`server`). It has the same four calls in every mode of
/// the servers.
///
///     gs::distributed::worker worker{ranks};
///     for (std::uint64_t step = worker.position(); step != steps; ++step) {
///         worker.pull("w", weights);
///         compute(weights, gradient);
///         worker.push("w", gradient);        // starts to send, and does not wait for the step
///     }
///     worker.stop();
///
/// The messenger must outlive the worker. Several threads can call a worker concurrently; the
/// pushes of one thread are applied in order. A call does not use the memory of its arguments after
/// it returns. A worker has no thread. Between its calls, messages move only if the transport moves
/// them by itself. MPI can delay this until the next call.
///
/// If a server restarts, it continues from its checkpoint, and the worker sends again what the
/// checkpoint lacks. If a worker restarts, it continues from `position()`. Calls throw before they
/// send anything if an argument does not fit the parameter. If a server rejects a pull, the pull
/// throws. If it rejects a push, every later call throws. If a server is silent for twice the
/// messenger's timeout, the call throws rank_error with its rank. (A server reports a silent worker
/// after one timeout, and sends heartbeats to workers that wait for others.)
class worker {
public:
    /// Connects to all servers, and waits for them. Throws value_error if an option is out of
    /// range, if the rank is not a worker, or if the servers do not match. The servers and this
    /// rank must have the same version, number of ranks, mode and split_from. Each parameter must
    /// have the same element, size and policies on all servers that must have it.
    template <messenger M>
    explicit worker(M& ranks, worker_options options = {})
        : worker(std::make_unique<detail::messenger_of<M>>(ranks), options) {}
    template <messenger M> explicit worker(M const&&, worker_options = {}) {
        static_assert(sizeof(M) == 0,
                      "gradstep: worker: the messenger is a temporary; expected a variable that outlives the worker");
    }
    worker(worker const&) = delete;
    worker& operator=(worker const&) = delete;
    ~worker();

    /// Copies the weights of a dense parameter to `out`, which must have the same number of
    /// elements. With keys, copies their rows, in the order of the keys, to `out` of
    /// keys.size() * width elements. Keys are std::uint64_t, or std::int64_t with the same bits;
    /// for a gs::table they are ids >= 0. In synchronous mode the weights include all pushes of
    /// this worker, and the other workers' pushes in the same steps. Throws value_error for an
    /// unknown name, another element or a negative id, size_error, buffer_error, and the errors
    /// described for the class.
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
    /// Sends a gradient or a delta. It does not wait for the step, but it waits for earlier pushes
    /// if max_in_flight of them are not applied. Throws the errors of `pull`, and sequence_error
    /// for a parameter that this worker has not pulled; nothing is sent then. If memory or the
    /// transport fails during sending, it throws that error, and every later call throws
    /// rank_error. A new worker then continues from `position()`; nothing is applied twice.
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
    /// Waits until every worker that has not stopped has called `barrier` equally often, and all
    /// their earlier pushes are applied. After a call that has thrown, the next call waits for the
    /// same barrier. Only one thread of a worker can be in this call; a second one gets
    /// sequence_error.
    void barrier();
    /// Waits until all pushes are applied, and are in the servers' checkpoints if they write any.
    /// Then it tells the servers that this worker has stopped, and waits until all workers have
    /// stopped. The messenger can then serve another job. Later calls throw sequence_error. Another
    /// `stop` does nothing, or continues one that has thrown after a timeout. Only one thread of a
    /// worker can be in this call.
    void stop();

    /// The number of pushes and barriers of this worker so far. For a new worker, it is the number
    /// that all servers have saved. Saved means contained in their checkpoints, or applied if they
    /// write none. Servers without parameters do not count.
    std::uint64_t position() const;
    /// Sets a smaller position, such as the position at the beginning of an interrupted step.
    /// Servers ignore pushes that they have already applied. Throws value_error for a larger
    /// number, and sequence_error after the first push.
    void go_on_from(std::uint64_t position);
    /// The number of workers of the job.
    int num_workers() const { return session_.num_workers(); }
    /// The number of elements of a dense parameter. Throws value_error for an unknown name, and for
    /// rows.
    std::uint64_t size(std::string_view name);
    /// The position up to which all servers have applied the pushes of this worker.
    std::uint64_t applied() const;
    /// The position up to which the servers' checkpoints contain the pushes of this worker.
    std::uint64_t durable() const;
    /// Whether a server knows that this worker has stopped, for example from a final checkpoint.
    /// Then all servers have saved all its pushes, and the only valid call is `stop`, which tells
    /// the other servers; all other calls throw sequence_error.
    bool has_stopped() const;

private:
    // Marks a call that only one thread can be in.
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

    // ---- pull and push, with bytes

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

    // ---- Checks

    template <class Keys> static given_keys keys_of(Keys const& keys) {
        using key = std::remove_const_t<gradstep::detail::element_type<Keys const>>;
        static_assert(std::is_integral_v<key>, "gradstep: worker: the keys are of another type; expected "
                                               "std::uint64_t, or std::int32_t or std::int64_t for ids");
        auto const all = gradstep::detail::as_span<key const, host_memory>(keys);
        return {{all.begin(), all.end()}, std::is_signed_v<key>};
    }
    // Ids of a gs::table must not be negative. Keys of a keyed table can have any bits.
    static void require_ids(detail::known_parameter const& of, given_keys const& given);
    void require_size(char const* call, detail::known_parameter const& of, std::uint64_t given, std::uint64_t expected,
                      void const* memory) const;
    void require_open(char const* call) const;

    // ---- Waiting

    // The least position(server) of all servers that hold a parameter.
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
    // Waits until the servers of a parameter can take another push.
    void make_room(std::unique_lock<std::mutex>& lock, detail::known_parameter const& of);
    // Asks the servers s with which(s) for a checkpoint, if they write any.
    template <class Which> void save(std::unique_lock<std::mutex>& lock, char const* call, Which const& which) {
        auto all = session_.about_all(detail::wire_kind::save,
                                      [&](std::size_t s) { return session_.server(s).is_durable() && which(s); });
        session_.ask(lock, all, call);
    }

    worker_options options_;
    detail::session session_;
    std::uint64_t barrier_ = 0; // the position of an incomplete barrier
    bool at_barrier_ = false, at_stop_ = false, stopping_ = false, stopped_ = false; // under the session's lock
};
} // namespace gradstep::distributed::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/worker.ipp>
#endif
