#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/core/type_id.hpp>
#include <gradstep/distributed/any_messenger.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/served.hpp>
#include <gradstep/distributed/server_checkpoint.hpp>
#include <gradstep/distributed/server_options.hpp>
#include <gradstep/distributed/server_protocol.hpp>
#include <gradstep/distributed/wire.hpp>
#include <gradstep/rules/add_delta.hpp>
#include <gradstep/state/saved_state.hpp>
#include <gradstep/table.hpp>

namespace gradstep::distributed {
inline namespace GRADSTEP_ABI {

/// A server of parameters: it has the weights, each with policies of its own, and steps them by
/// what workers push.
///
///     gs::distributed::server server{ranks, {.mode = gs::distributed::server_mode::asynchronous}};
///     server.add("wide", gs::table{ftrl, num_features, 1});
///     server.add("deep", adagrad, initial);
///     server.checkpoint("server_" + std::to_string(ranks.rank()) + ".safetensors", 1000); // each its own; goes on where it is there
///     server.run(ranks);                                   // until every worker has called stop
///
/// Every rank that is a server runs the same program: `add` keeps what belongs to this server. A
/// dense parameter is on the server of the stable hash of its name, or in pieces on all of them
/// (split_from); rows are on the server of the stable hash of their key, and a step by rows is one
/// on every server, so that their clocks are those of one table.
///
/// Every push has a number, its position among the pushes and barriers of its worker, and is
/// applied once however often it comes. A checkpoint has the positions and the parameters of one
/// moment. A server is of one thread; a step of a parameter runs on the executor of its updater's
/// backend.
class server {
public:
    /// Of rank `rank` of `size` ranks, or that of a messenger. Throws value_error where this is not
    /// the rank of a server, or no rank is left for workers.
    server(int rank, int size, server_options options = {});
    template <messenger M>
    explicit server(M const& ranks, server_options options = {}) : server(ranks.rank(), ranks.size(), options) {}
    server(server&&) noexcept;
    /// Moves.
    server& operator=(server&&) noexcept;
    ~server();

    /// Adds a dense parameter: a copy of that part of `initial` that belongs to this server, if
    /// any, in the host's memory. Rules that look at a whole tensor keep theirs whole, and so does
    /// stochastic rounding, whose bits go by an element's place in it. Throws value_error for a
    /// name that is there or empty, a delay compensation that is not in [0, infinity) or for the
    /// asynchronous mode, and in the mode geo for a rule that is not add_delta.
    template <class Updater, class Buffer>
    void add(std::string name, Updater const& optimizer, Buffer const& initial, served_options options = {}) {
        using storage = typename Updater::traits::storage;
        using rule = typename Updater::rule_type;
        static_assert(parameter<Updater>::on_host,
                      "gradstep: server: parameters are the host's: give a backend of the host");
        constexpr bool may_be_split =
            !row_wise_rule<rule> && !Updater::traits::is_stochastic && !gradstep::detail::compresses<rule>();
        check_new(name, std::is_same_v<rule, add_delta>);
        auto const all = gradstep::detail::as_span<storage const, host_memory>(initial);
        detail::wire_entry entry = dense_entry(std::move(name), detail::wire_element_of<storage>(), all.size(),
                                               may_be_split, gradstep::detail::policies_of(optimizer), options);
        auto const own = all.subspan(static_cast<std::size_t>(entry.first), static_cast<std::size_t>(entry.size));
        parameter<Updater> kept(optimizer, own, {.id = options.id});
        if (own.empty() && !all.empty()) return add_elsewhere(std::move(entry.name));
        add_served(std::make_unique<detail::served_dense<Updater>>(std::move(entry), std::move(kept), num_workers(),
                                                                   options.delay_compensation));
    }
    /// Adds rows: gs::table, whose ids are the keys, or gs::keyed_table. With several servers each
    /// has the rows whose keys are its own; a gs::table has memory for all of them in each, a keyed
    /// one for those that were seen. Throws as the other, and in the synchronous mode for another
    /// way with duplicates than duplicates::sum.
    template <class Table>
    requires requires { typename Table::storage; }
    void add(std::string name, Table rows) {
        static_assert(
            requires { typename Table::updater_type; },
            "gradstep: server: a server is of one thread: give the table itself, not a striped one");
        if constexpr (requires { Table::on_host; }) // keyed tables are
            static_assert(Table::on_host, "gradstep: server: rows are the host's: give a backend of the host");
        check_new(name, std::is_same_v<typename Table::updater_type::rule_type, add_delta>);
        check_duplicates(name, rows.options().duplicates);
        detail::wire_entry entry;
        entry.element = detail::wire_element_of<typename Table::storage>();
        entry.is_rows = true;
        entry.width = rows.width();
        if constexpr (requires { rows.grow(0); }) entry.total = rows.num_rows(); // else the rows have keys, not ids
        entry.name = std::move(name);
        row_progress at;
        entry.policies = detail::policies_in_words(gradstep::detail::state_of::get(rows, "add", at).own_policies,
                                                   rows.options()); // and how rows catch up
        add_served(std::make_unique<detail::served_table<Table>>(std::move(entry), std::move(rows), num_workers()));
    }

    /// A parameter by its name, `get<decltype(optimizer)>("deep")`, or rows,
    /// `get<decltype(rows)>("wide")`: between calls of `handle`, or after `run`. Throws value_error
    /// where this server has none of this name and type.
    template <class Type> auto& get(std::string_view name) {
        using type = typename of_type<Type>::type;
        return *static_cast<type*>(address_of(name, gradstep::detail::type_id_of<type>()));
    }
    /// The number of parameters and tables that this server has, or has a part of.
    std::size_t size() const { return protocol_.parameters.size(); }
    /// Of the modes asynchronous and geo: by how many steps, on average over all pushes since this
    /// server began, the parameter had moved on between its worker's last pull of it and the push;
    /// the worker's own pushes since that pull are counted too. 0 before the first.
    double staleness() const { return protocol_.staleness(); }

    /// Takes what a rank has sent, and returns what is to be sent. What is no message, or does not
    /// fit, has no effect, and its sender is told so in words: its call that waits for the answer,
    /// or its next one, throws them. So is one that asks for more than there is memory for. Throws
    /// what fails here: io_error of a checkpoint, what a task of `after_every` throws, and in the
    /// synchronous mode what the step by several gradients refuses.
    std::vector<outgoing> handle(int from, std::vector<std::byte> bytes);
    /// The memory of the messages that the last `handle` has come to the end of, for the next ones
    /// (messenger): the system takes as long to give and take back that of a large message as a
    /// step takes. It goes with the next `handle`.
    std::vector<std::vector<std::byte>> spent() { return protocol_.spent(); }

    /// Serves until every worker has called stop; one whose checkpoint says so tells them that, and
    /// returns. Throws rank_error, which names them, where workers that wait for nothing have sent
    /// nothing for the messenger's timeout, or where all have sent nothing for so long, since they
    /// wait for each other, not counting the time in which this server steps or writes a
    /// checkpoint; all others then have the same sentence.
    template <messenger M> void run(M& ranks) {
        detail::messenger_of<M> by(ranks);
        serve(by);
    }
    /// What a server says when it begins: a loop without `run` sends these, and then what `handle`
    /// returns. `run` also gives signs of life to workers that wait, names those that are silent,
    /// and tells all of what was thrown.
    std::vector<outgoing> begin();
    /// Has `task(*this)` called after every so many pushes that this server has applied, of all
    /// workers and parameters, since it began: between two messages, and before a checkpoint that
    /// is due, so that what it does is in there. It is where a program gives up rows of keyed
    /// tables, takes their `changed_since` for replicas, writes down how far the job is, or saves.
    /// Tasks run in the order in which they were added; where several pushes are applied at once,
    /// as in the synchronous mode, one is called once for all of them.
    ///
    ///     server.after_every(10'000, [](auto& self) { self.template get<features_type>("features").evict_to(50'000'000); });
    ///
    /// Meanwhile the rows of keyed tables are held (keyed_table::hold) that a worker has pulled, by
    /// its last 16 pulls of the table at most, and not pushed since: none is given up between the
    /// read of a worker and its update. After a restart of the server that is none, up to the next
    /// pulls. A task may add others, and must not call `handle` or `run`. What it throws ends the
    /// run for all, with its words. Throws value_error for 0 pushes, and for no task.
    void after_every(std::uint64_t pushes, std::function<void(server&)> task);

    /// Whether every worker has stopped, `finished()`; `reopen()` lets them begin again, to train
    /// on from a checkpoint of the end.
    bool finished() const { return protocol_.is_finished(); }
    void reopen() { protocol_.reopen(); }

    /// Writes parameters, rows and the positions of all workers to one file. A header-only program
    /// must also include gradstep/io/checkpoint.hpp, which defines what writes and reads files. The
    /// file is there once it is whole and on the disk; until then the one before is. Throws
    /// io_error, and sequence_error where an average is in the place of weights.
    void save(std::string const& file) { checkpoint_.save(protocol_, file); }
    /// Goes on from where `save` was called, with the parameters of that one. Throws value_error or
    /// size_error for a file of something else, another server's among it, io_error; a parameter
    /// that was refused is as it was, and so are those after it.
    void load(std::string const& file) { checkpoint_.load(protocol_, file); }
    /// Goes on from this file, of this server alone, where it is there, and writes it anew after
    /// every so many pushes that this server has applied, of all workers and parameters (0: not by
    /// their number), when a worker can keep no more of what it has sent or is about to stop,
    /// unless what it has sent is in the file already, and when all have stopped. Called after all
    /// `add`, and before `run`. While it writes, it answers nobody. Workers keep what they have
    /// pushed until it is in the file. Throws as `load`; and where another server writes the same
    /// file, the next write is a value_error.
    void checkpoint(std::string file, std::uint64_t every) { checkpoint_.begin(protocol_, std::move(file), every); }

private:
    template <class Type> struct of_type { using type = Type; };
    template <class E, class R, class G, class S, class B> struct of_type<updater<E, R, G, S, B>> {
        using type = parameter<updater<E, R, G, S, B>>;
    };
    struct periodic {
        std::uint64_t every, done; // pushes; how often they were full
        std::function<void(server&)> call;
    };

    std::size_t num_workers() const { return protocol_.num_workers(); }
    void check_new(std::string const& name, bool adds_deltas) const;
    void check_duplicates(std::string const& name, duplicates what) const;
    // What this server has of a dense parameter; throws for a bad delay compensation.
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

} // namespace GRADSTEP_ABI
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/server.ipp>
#endif
