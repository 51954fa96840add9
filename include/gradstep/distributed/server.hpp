#pragma once
#include <functional>
#include <set>

#include <gradstep/base/detail/hash.hpp>
#include <gradstep/base/detail/type_id.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/detail/any_messenger.hpp>
#include <gradstep/distributed/detail/served.hpp>
#include <gradstep/distributed/detail/server_checkpoint.hpp>
#include <gradstep/distributed/detail/server_protocol.hpp>
#include <gradstep/distributed/detail/wire.hpp>
#include <gradstep/distributed/server_options.hpp>
#include <gradstep/rules/add_delta.hpp>
#include <gradstep/saved/saved_state.hpp>
#include <gradstep/table.hpp>

namespace gradstep::distributed::inline GRADSTEP_ABI {
/// A parameter server: it stores the weights, and updates them by the gradients that workers push.
/// Each parameter has its own policies.
///
///     gs::distributed::server server{ranks, {.mode = gs::distributed::server_mode::asynchronous}};
///     server.add("wide", gs::table{ftrl, num_features, 1});
///     server.add("deep", adagrad, initial);
///     // One file for each server. If it exists, the server continues from it.
///     server.checkpoint("server_" + std::to_string(ranks.rank()) + ".safetensors", 1000);
///     server.run(ranks);                                   // until every worker has called stop
///
/// All servers run the same program: `add` keeps only the part that belongs to this server. A dense
/// parameter is on one server, chosen by the stable hash of its name, or has a shard on every
/// server (split_from). Each row is on one server, chosen by the stable hash of its key. A push of
/// rows is a step on every server, so their clocks agree, as in a single table.
///
/// Each push has a position among the pushes and barriers of its worker. The server applies it
/// once, even if it arrives several times. A checkpoint contains consistent positions and
/// parameters. Use a server from one thread. The step of a parameter runs on the executor of its
/// updater's backend.
class server {
public:
    /// Makes a server with rank `rank` in a job of `size` ranks. Throws value_error if this rank is
    /// not a server, or if no rank is left for workers.
    server(int rank, int size, server_options options = {});
    /// The same with the rank and the size of a messenger.
    template <messenger M>
    explicit server(M const& ranks, server_options options = {}) : server(ranks.rank(), ranks.size(), options) {}
    server(server&&) noexcept;
    /// Moves the parameters and the workers' positions to this server.
    server& operator=(server&&) noexcept;
    ~server();

    /// Adds a dense parameter: copies the part of `initial` that belongs to this server, if any, to
    /// host memory. A parameter is not split if its rule needs the whole tensor, or for stochastic
    /// rounding, whose random bits depend on the position of the element. Throws value_error if the
    /// name is empty or exists, or if delay_compensation is not in [0, infinity) or is used outside
    /// asynchronous mode. In geo mode it throws value_error if the rule is not add_delta.
    template <class Updater, class Buffer>
    requires requires { typename Updater::traits; }
    void add(std::string name, Updater const& optimizer, Buffer const& initial, served_options options = {}) {
        using storage = typename Updater::traits::storage;
        using rule = typename Updater::rule_type;
        static_assert(parameter<Updater>::on_host,
                      "gradstep: server: the parameter is on a device; expected a backend of the host");
        static_assert(!model_wise_rule<rule>,
                      "gradstep: server: the rule needs sums over the whole model, and a server updates one parameter "
                      "at a time; expected an element-wise or row-wise rule; use synchronous");
        constexpr bool may_be_split = !row_wise_rule<rule> && !shaped_rule<rule> && !gradstep::detail::uses_id<Updater>;
        check_new(name, std::is_same_v<rule, add_delta>);
        auto const all = gradstep::detail::as_span<storage const, host_memory>(initial);
        detail::wire_entry entry = dense_entry(std::move(name), detail::wire_element_of<storage>(), all.size(),
                                               may_be_split, gradstep::detail::policies_of(optimizer), options);
        auto const own = all.subspan(static_cast<std::size_t>(entry.first), static_cast<std::size_t>(entry.size));
        shape const known = own.empty() ? shape{} : gradstep::detail::shape_of(initial);
        if (matrix_rule<rule> && !own.empty() && !known.is_known())
            detail::fail<value_error>({"add: ", entry.name}, {"initial has no shape, and the rule needs a matrix"},
                                      {"an xtensor or Eigen container"});
        std::uint64_t const id = options.id != 0 ? options.id : gradstep::detail::hash_of(entry.name);
        parameter<Updater> kept(optimizer, own, {.id = id, .shape = known});
        if (own.empty() && !all.empty()) return add_elsewhere(std::move(entry.name));
        add_served(std::make_unique<detail::served_dense<storage>>(
            std::move(entry), parameter<Updater>::owned(std::move(kept)), num_workers(), options.delay_compensation));
    }
    /// Adds rows: a gs::table, with ids as keys, or a gs::keyed_table. Each server has the rows of
    /// the keys that belong to it. A gs::table allocates memory for all rows on each server, a
    /// keyed_table only for the rows that were seen. Throws the errors of the other `add`, and
    /// value_error in synchronous mode unless the table has duplicates::sum.
    ///
    /// Tables whose policies are chosen at run time are any_table (gradstep/runtime.hpp) and
    /// any_keyed_table (gradstep/runtime/any_keyed_table.hpp).
    template <class Table>
    requires(
        requires { typename Table::storage; } ||
        requires(Table const& x) { x.optimizer().facts(); }) void add(std::string name, Table rows) {
        detail::wire_entry entry;
        if constexpr (requires { rows.optimizer().facts(); }) {
            auto const& of = rows.optimizer().facts();
            check_new(name, detail::is_add_delta(of));
            entry.element = of.storage;
        } else {
            static_assert(
                requires { typename Table::updater_type; }, "gradstep: server: this is no table, or a striped one; "
                                                            "expected the table itself, since a server has one thread");
            if constexpr (requires { Table::on_host; }) // keyed tables are
                static_assert(Table::on_host,
                              "gradstep: server: the table is on a device; expected a backend of the host");
            check_new(name, std::is_same_v<typename Table::updater_type::rule_type, add_delta>);
            entry.element = detail::wire_element_of<typename Table::storage>();
        }
        check_duplicates(name, rows.options().duplicates);
        entry.is_rows = true;
        entry.width = rows.width();
        if constexpr (requires { rows.grow(0); }) entry.total = rows.num_rows(); // otherwise the rows have keys
        entry.name = std::move(name);
        row_progress at;
        entry.policies = detail::policies_text(gradstep::detail::state_from(rows, "add", at).own_policies,
                                               rows.options()); // and how rows catch up
        add_served(std::make_unique<detail::served_table<Table>>(std::move(entry), std::move(rows), num_workers()));
    }
    /// Adds a dense parameter whose policies are chosen at run time, by an any_updater. `initial`
    /// has the type of its values. `get<gs::any_parameter>(name)` returns it. Throws the errors of
    /// the first `add`, and value_error for a model-wise rule, one that needs a matrix, and a
    /// catch-up policy. A parameter whose optimizer clips norms, or skips gradients that are not
    /// finite, is not split.
    template <class Updater>
    requires requires { typename Updater::tensor_type; }
    void add(std::string name, Updater const& optimizer, typename Updater::span_type initial,
             served_options options = {}) {
        auto const& of = optimizer.facts();
        if (of.is_model_wise)
            detail::fail<value_error>({"add: ", name},
                                      {"the rule needs sums over the whole model, and a server updates one parameter "
                                       "at a time"},
                                      {"an element-wise or row-wise rule; use synchronous"});
        if (of.needs_matrix)
            detail::fail<value_error>({"add: ", name}, {"the rule needs a matrix, and `initial` has no shape"},
                                      {"an updater of a type, with an xtensor or Eigen container"});
        if (!std::holds_alternative<touch_only>(optimizer.policies().catch_up))
            detail::fail<value_error>({"add: ", name, ": catch_up"}, {"a dense parameter takes every step as a whole"},
                                      {"touch_only"});
        check_new(name, detail::is_add_delta(of));
        initial = initial.now();
        // A norm, and a decision to skip a step, need the whole gradient.
        bool const may_be_split = !of.is_whole() && !of.uses_id && optimizer.limit().is_none() &&
                                  optimizer.options().on_nonfinite == nonfinite::propagate;
        detail::wire_entry entry = dense_entry(std::move(name), of.storage, initial.size, may_be_split,
                                               gradstep::detail::policies_of(optimizer), options);
        typename Updater::span_type own = initial; // without memory: zeros
        if (own.data != nullptr)
            own.data =
                static_cast<std::byte const*>(own.data) + static_cast<std::size_t>(entry.first) * of.storage_bytes;
        own.size = static_cast<std::size_t>(entry.size);
        own.container = {};
        std::uint64_t const id = options.id != 0 ? options.id : gradstep::detail::hash_of(entry.name);
        typename Updater::parameter_type kept(optimizer, own, {.id = id});
        if (own.size == 0 && initial.size != 0) return add_elsewhere(std::move(entry.name));
        auto owned = Updater::parameter_type::owned(std::move(kept));
        gradstep::detail::with_type(of.storage, [&]<class S>() {
            add_served(std::make_unique<detail::served_dense<S>>(std::move(entry), std::move(owned), num_workers(),
                                                                 options.delay_compensation));
        });
    }

    /// Returns a parameter by its name, `get<decltype(optimizer)>("deep")`, or rows,
    /// `get<decltype(rows)>("wide")`. Call it between calls of `handle`, or after `run`. Throws
    /// value_error if this server has no parameter of this name and type.
    template <class Type> auto& get(std::string_view name) {
        using type = typename of_type<Type>::type;
        return *static_cast<type*>(address_of(name, gradstep::detail::type_id_of<type>()));
    }
    /// The number of parameters and tables on this server, including shards.
    std::size_t size() const { return protocol_.parameters.size(); }
    /// The number of pushes that this server has applied since it started, over all workers and
    /// parameters.
    std::uint64_t pushes() const { return protocol_.pushes(); }
    /// The average staleness of all pushes since this server started, in asynchronous and geo mode.
    /// The staleness of a push is the number of steps of its parameter since the worker's last
    /// pull. The worker's own pushes since that pull count, too. 0 before the first push.
    double staleness() const { return protocol_.staleness(); }

    /// Handles a message from a rank, and returns the messages to send. A message has no effect if
    /// it is invalid or if memory does not suffice. Its sender gets an error message. The sender's
    /// call that waits for the answer, or its next call, throws this error. Throws errors of this
    /// server: io_error of a checkpoint, errors of tasks (`after_every`), and in synchronous mode
    /// errors of the step by several gradients.
    std::vector<outgoing> handle(int from, std::vector<std::byte> bytes);
    /// Returns the memory of the messages that the last `handle` has finished, so that the
    /// messenger can reuse it. Allocating and freeing a large message takes as long as a step. The
    /// next `handle` frees memory that you did not take.
    std::vector<std::vector<std::byte>> spent() { return protocol_.spent(); }

    /// Serves until every worker has called stop. If all workers have stopped according to the
    /// checkpoint, it tells the workers and returns. Throws rank_error if a worker that does not
    /// wait is silent for the messenger's timeout. It also throws rank_error if all workers are
    /// silent because they wait for each other. The error contains the silent ranks, and the other
    /// ranks get the same error. The time in which this server steps or writes a checkpoint does
    /// not count.
    template <messenger M> void run(M& ranks) {
        detail::messenger_of<M> by(ranks);
        serve(by);
    }
    /// Returns the first messages of a server, for a loop without `run`. Send these messages, and
    /// then the messages that `handle` returns. `run` also sends heartbeats to waiting workers,
    /// detects silent workers, and sends errors to all ranks.
    std::vector<outgoing> begin();
    /// Calls `task(*this)` after every `pushes` pushes that this server has applied, counted over
    /// all workers and parameters since it started. The call is between two messages, and before a
    /// checkpoint that is due, so the checkpoint contains its effects. Use it to evict rows of
    /// keyed tables, to send `changed_since` to replicas, to log progress, or to save. Tasks run in
    /// the order in which they were added. If several pushes are applied at once, as in synchronous
    /// mode, a task runs once for all of them.
    ///
    ///     server.after_every(10'000, [](auto& self) {
    ///         self.template get<features_type>("features").evict_to(50'000'000);
    ///     });
    ///
    /// If a worker has pulled a row of a keyed table and not pushed it since, a task does not evict
    /// this row (keyed_table::hold). This covers the last 16 pulls of each worker and table. After
    /// a restart, it covers the pulls since the restart. A task can add other tasks, and must not
    /// call `handle` or `run`. If it throws, the run ends on all ranks with its message. Throws
    /// value_error for 0 pushes, and for an empty task.
    void after_every(std::uint64_t pushes, std::function<void(server&)> task);

    /// Whether every worker has stopped.
    bool finished() const { return protocol_.is_finished(); }
    /// Lets workers start again after all have stopped, to continue training from a final
    /// checkpoint.
    void reopen() { protocol_.reopen(); }

    /// Writes parameters, rows and the positions of all workers to one file. Workers keep their
    /// pushes until the file of `checkpoint` contains them, not this one. A header-only program
    /// must also include gradstep/checkpoint.hpp. An existing file is replaced when the new one
    /// is complete and on the disk. Throws io_error, and sequence_error if an average has replaced
    /// the weights.
    void save(std::string const& file) { checkpoint_.save(protocol_, file); }
    /// Continues from a file of `save` with the same parameters. Throws value_error or size_error
    /// if the file does not fit, for example if it is from another server, and io_error. The
    /// parameter that does not fit and the parameters after it then stay unchanged.
    void load(std::string const& file) { checkpoint_.load(protocol_, file); }
    /// Continues from the file if it exists, and then writes it periodically: after every `every`
    /// pushes that this server has applied. The count includes all workers and parameters; with 0,
    /// the number of pushes does not matter. The server also writes the file when all workers have
    /// stopped. It also writes the file when a worker can keep no more pushes or is about to stop,
    /// unless the file contains its pushes. Each server needs its own file. Call it after all
    /// `add`, and before `run`. The server answers no messages while it writes. Workers keep their
    /// pushes until the file contains them. Throws the errors of `load`. If another server writes
    /// the same file, the next write throws value_error.
    void checkpoint(std::string file, std::uint64_t every) { checkpoint_.begin(protocol_, std::move(file), every); }

private:
    template <class Type> struct of_type { using type = Type; };
    template <class E, class R, class G, class S, class B> struct of_type<updater<E, R, G, S, B>> {
        using type = parameter<updater<E, R, G, S, B>>;
    };
    struct periodic {
        std::uint64_t every, done; // pushes; the number of calls that were due
        std::function<void(server&)> call;
    };

    std::size_t num_workers() const { return protocol_.num_workers(); }
    void check_new(std::string const& name, bool adds_deltas) const;
    void check_duplicates(std::string const& name, duplicates what) const;
    // The part of a dense parameter on this server. Throws for an invalid delay compensation.
    detail::wire_entry dense_entry(std::string name, detail::wire_element element, std::size_t elements,
                                   bool may_be_split, gradstep::detail::saved_policies policies,
                                   served_options const& options) const;
    void add_served(std::unique_ptr<detail::served_parameter> added);
    void add_elsewhere(std::string name) { protocol_.parameters.add_elsewhere(std::move(name)); }
    void* address_of(std::string_view name, gradstep::detail::type_id type);

    void serve(detail::any_messenger& ranks);
    void run_tasks();

    detail::server_protocol protocol_;
    detail::server_checkpoint checkpoint_;
    std::set<std::string, std::less<>> in_files_; // names of tensors
    std::deque<periodic> tasks_;
};
} // namespace gradstep::distributed::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/server.ipp>
#endif
