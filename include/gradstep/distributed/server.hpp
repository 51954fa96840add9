#pragma once
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gradstep/core/error.hpp>
#include <gradstep/core/saved_names.hpp>
#include <gradstep/core/stable_hash.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/positions.hpp>
#include <gradstep/distributed/served.hpp>
#include <gradstep/distributed/served_parameters.hpp>
#include <gradstep/distributed/wire.hpp>
#include <gradstep/rules/add_delta.hpp>
#include <gradstep/state/saved_state.hpp>
#include <gradstep/table.hpp>

namespace gradstep::distributed {

/// What a server does with the gradients of its workers.
enum class server_mode {
    synchronous,  ///< one step by the mean of one push of each worker, in the order of their ranks
    asynchronous, ///< one step by each push as it comes
    geo,          ///< the same with what `geo_parameter` sends: changes of weights, which `add_delta` adds
};

/// What a server does beyond its parameters. All servers of a job are given the same.
struct server_options {
    /// When a step is taken.
    server_mode mode = server_mode::asynchronous;
    /// Of the ranks, 0 to num_servers - 1 are servers, the others workers.
    int num_servers = 1;
    /// A dense parameter of so many elements and more is spread over all servers in pieces; a smaller one is on one of them.
    std::size_t split_from = std::size_t{1} << 16;
    /// Whether the checksums of messages cover the weights, too, beside headers and keys: for an engine that does not, as MPI does,
    /// deliver what was sent.
    bool check_elements = false;
};

/// What a server does with one parameter.
struct served_options {
    /// Asynchronous mode: a gradient that was computed at weights which have moved since is corrected by lambda g g (w - w then)
    /// (Zheng et al. 2017, equation 10; arXiv:1609.08326), lambda in [0, infinity). 0: it is not. It takes a copy of the
    /// parameter for each worker: what it has pulled last. After a restart of the server that is none, up to its next pull.
    double delay_compensation = 0;
    /// As parameter_options.id.
    std::uint64_t id = 0;
};

/// A message that goes to a rank.
struct outgoing {
    /// The rank, `to`, and the `bytes`.
    int to;
    std::vector<std::byte> bytes;
};

inline namespace GRADSTEP_ABI {

/// A server of parameters: it has the weights, each with policies of its own, and steps them by what workers push.
///
///     gs::distributed::server server{ranks, {.mode = gs::distributed::server_mode::asynchronous}};
///     server.add("wide", gs::table{ftrl, num_features, 1});
///     server.add("deep", adagrad, initial);
///     server.checkpoint("server_" + std::to_string(ranks.rank()) + ".safetensors", 1000); // each its own; goes on where it is there
///     server.run(ranks);                                   // until every worker has called stop
///
/// Every rank that is a server runs the same program: `add` keeps what belongs to this server. A dense parameter is on the server
/// of the stable hash of its name, or in pieces on all of them (split_from); rows are on the server of the stable hash of their
/// key, and a step by rows is one on every server, so that their clocks are those of one table.
///
/// Every push has a number, its position among the pushes and barriers of its worker, and is applied once however often it comes. A
/// checkpoint has the positions and the parameters of one moment. A server is of one thread; a step of a parameter runs on the executor
/// of its updater's backend.
class server {
public:
    /// Of rank `rank` of `size` ranks, or that of a messenger. Throws value_error where this is not the rank of a server, or no rank
    /// is left for workers.
    server(int rank, int size, server_options options = {}) : options_(options), rank_(rank), size_(size) {
        if (options.num_servers < 1 || options.num_servers >= size)
            detail::fail<value_error>({"server_options.num_servers = ", options.num_servers, ": must be in [1, ", size,
                                       "), so that of the ", size, " ranks one at least is a worker"});
        if (rank < 0 || rank >= options.num_servers)
            detail::fail<value_error>(
                {"server: rank ", rank, " is a worker: must be in [0, ", options.num_servers, ")"});
        workers_.resize(static_cast<std::size_t>(size - options.num_servers));
    }
    template <messenger M>
    explicit server(M const& ranks, server_options options = {}) : server(ranks.rank(), ranks.size(), options) {}

    /// Adds a dense parameter: a copy of that part of `initial` that belongs to this server, if any, in the host's memory. Rules
    /// that look at a whole tensor keep theirs whole, and so does stochastic rounding, whose bits go by an element's place in it.
    /// Throws value_error for a name that is there or empty, a delay compensation that is not in [0, infinity) or for the
    /// asynchronous mode, and in the mode geo for a rule that is not add_delta.
    template <class Updater, class Buffer>
    void add(std::string name, Updater const& optimizer, Buffer const& initial, served_options options = {}) {
        using storage = typename Updater::traits::storage;
        using rule = typename Updater::rule_type;
        static_assert(parameter<Updater>::on_host,
                      "gradstep: server: parameters are the host's: give a backend of the host");
        check_new(name, std::is_same_v<rule, add_delta>);
        check_compensation(name, options.delay_compensation, std::is_integral_v<storage>);
        auto const all = gradstep::detail::as_span<storage const, host_memory>(initial);
        detail::wire_entry entry;
        entry.element = detail::wire_element_of<storage>();
        entry.total = all.size();
        piece const own =
            own_piece(name, all.size(),
                      !row_wise_rule<rule> && !Updater::traits::is_stochastic && !gradstep::detail::compresses<rule>());
        entry.first = own.first;
        entry.size = own.size();
        entry.name = std::move(name);
        entry.policies = detail::alike_of(optimizer, options.delay_compensation, options.id);
        parameter<Updater> kept(optimizer, all.subspan(own.first, own.size()), {.id = options.id});
        using type = detail::served_dense<Updater>;
        if (own.size() == 0 && all.size() != 0) return parameters_.add_elsewhere(std::move(entry.name));
        push_back<type>(std::move(entry), std::move(kept), workers_.size(), options.delay_compensation);
    }
    /// Adds rows: gs::table, whose ids are the keys, or gs::keyed_table. With several servers each has the rows whose keys are its
    /// own; a gs::table has memory for all of them in each, a keyed one for those that were seen. Throws as the other,
    /// and in the synchronous mode for another way with duplicates than duplicates::sum.
    template <class Table>
    requires requires { typename Table::storage; }
    void add(std::string name, Table rows) {
        static_assert(
            requires { typename Table::updater_type; },
            "gradstep: server: a server is of one thread: give the table itself, not a striped one");
        using storage = typename Table::storage;
        if constexpr (requires { Table::on_host; }) // keyed tables are
            static_assert(Table::on_host, "gradstep: server: rows are the host's: give a backend of the host");
        check_new(name, std::is_same_v<typename Table::updater_type::rule_type, add_delta>);
        if (options_.mode == server_mode::synchronous && rows.options().duplicates != duplicates::sum)
            detail::fail<value_error>({"add: ", name,
                                       ": the mode is synchronous, in which a step has the rows of all workers, of "
                                       "which several may name one: the table must have duplicates::sum"});
        detail::wire_entry entry;
        entry.element = detail::wire_element_of<storage>();
        entry.is_rows = true;
        entry.width = rows.width();
        if constexpr (requires { rows.num_rows(); }) entry.total = is_keyed<Table> ? 0 : rows.num_rows();
        entry.name = std::move(name);
        entry.policies = detail::alike_of_rows(rows);
        push_back<detail::served_rows<Table>>(std::move(entry), std::move(rows), workers_.size());
    }

    /// A parameter by its name, `get<decltype(optimizer)>("deep")`, or rows, `get<decltype(rows)>("wide")`: between calls of
    /// `handle`, or after `run`. Throws value_error where this server has none of this name and type.
    template <class Type> auto& get(std::string_view name) {
        using type = typename of_type<Type>::type;
        detail::served_parameter* const found = parameters_.find(name);
        void* const address = found == nullptr ? nullptr : found->what->as(gradstep::detail::type_id_of<type>());
        if (address == nullptr)
            detail::fail<value_error>(
                {"get: ", name, found == nullptr ? " is not on this server" : " is of another type"});
        return *static_cast<type*>(address);
    }
    /// The number of parameters and tables that this server has, or has a part of.
    std::size_t size() const { return parameters_.size(); }
    /// Of the modes asynchronous and geo: by how many steps, on average over all pushes since this server began, the parameter had
    /// moved on between its worker's last pull of it and the push; the worker's own pushes since that pull are counted too.
    /// 0 before the first.
    double staleness() const { return pushes_ == 0 ? 0 : static_cast<double>(late_) / static_cast<double>(pushes_); }

    /// Takes what a rank has sent, and returns what is to be sent. What is no message, or does not fit, has no effect, and its sender
    /// is told so in words: its call that waits for the answer, or its next one, throws them. So is one that asks for more than there
    /// is memory for. Throws what fails here: io_error of a checkpoint, what a task of `after_every` throws, and in the synchronous mode what the step by several
    /// gradients refuses.
    std::vector<outgoing> handle(int from, std::vector<std::byte> bytes) {
        replies_.clear();
        spent_.clear();
        request_ = 0;
#if GRADSTEP_EXCEPTIONS
        try {
            take(from, std::move(bytes));
        } catch (error const& wrong) {
            refuse(from, wrong.what());
        }
#else
        take(from, std::move(bytes));
#endif
        for (auto const& one : parameters_) merge(*one);
        release_barriers();
        run_tasks();
        if (save_ != nullptr && (save_now_ || (every_ != 0 && pushes_ - pushes_saved_ >= every_))) save_(*this, file_);
        save_now_ = false;
        for (auto& waits : saved_) answer_now(waits.to, waits.request);
        saved_.clear();
        // All at once, so that what a worker says after its stop is for whoever serves next.
        for (std::size_t w = 0; w != workers_.size() && finished(); ++w)
            if (auto const request = std::exchange(workers_[w].stop, 0); request != 0) answer_now(w, request);
        return std::move(replies_);
    }
    /// The memory of the messages that the last `handle` has come to the end of, for the next ones (messenger): the system takes as long
    /// to give and take back that of a large message as a step takes. It goes with the next `handle`.
    std::vector<std::vector<std::byte>> spent() { return std::move(spent_); }

    /// Serves until every worker has called stop; one whose checkpoint says so tells them that, and returns. Throws rank_error,
    /// which names them, where workers that wait for nothing have sent nothing for the messenger's timeout, or where all have sent
    /// nothing for so long, since they wait for each other, not counting the time in which this server steps or writes a
    /// checkpoint; all others then have the same sentence.
    template <messenger M> void run(M& ranks) {
        using clock = std::chrono::steady_clock;
        if (ranks.rank() != rank_ || ranks.size() != size_)
            detail::fail<value_error>({"run: the messenger is rank ", ranks.rank(), " of ", ranks.size(),
                                       ", the server ", rank_, " of ", size_});
        auto const send = [&](std::vector<outgoing> all) {
            for (auto& each : all) ranks.send(each.to, std::move(each.bytes));
        };
        gradstep::detail::translating<std::exception>(
            [&] {
                send(begin());
                std::vector<clock::time_point> heard(workers_.size(), clock::now());
                auto const wait = std::max(ranks.timeout() / 16, std::chrono::milliseconds(1));
                auto look = clock::now() + wait, sign = clock::now() + ranks.timeout() / 4;
                while (!finished()) {
                    auto got = ranks.receive(wait);
                    auto const now = clock::now();
                    if (got) {
                        if (auto const w = number_of(got->from); w < heard.size()) heard[w] = now;
                        send(handle(got->from, std::move(got->bytes)));
                        for (auto& memory : spent()) detail::reuse(ranks, std::move(memory));
                        // What came meanwhile lies there unread: nobody was silent for as long as a checkpoint is written.
                        auto const busy = clock::now() - now;
                        for (auto& last : heard) last += busy;
                        if (now < look) continue;
                    }
                    look = now + wait;
                    if (now > sign) {
                        sign = now + ranks.timeout() / 4;
                        send(signs());
                    }
                    require_signs(ranks.timeout(), [&](std::size_t w) { return now - heard[w] > ranks.timeout(); });
                }
            },
            [&](std::exception const& failed) { send(refuse_all(failed.what())); });
    }
    /// What a server says when it begins: a loop without `run` sends these, and then what `handle` returns. `run` also gives signs of
    /// life to workers that wait, names those that are silent, and tells all of what was thrown.
    std::vector<outgoing> begin() {
        replies_.clear();
        for (std::size_t w = 0; w != workers_.size(); ++w) {
            if (finished()) welcome(w);
            else begun(w);
        }
        return std::move(replies_);
    }
    /// Has `task(*this)` called after every so many pushes that this server has applied, of all workers and parameters, since it began:
    /// between two messages, and before a checkpoint that is due, so that what it does is in there. It is where a program gives up rows of
    /// keyed tables, takes their `changed_since` for replicas, writes down how far the job is, or saves. Tasks run in the order in which
    /// they were added; where several pushes are applied at once, as in the synchronous mode, one is called once for all of them.
    ///
    ///     server.after_every(10'000, [](auto& self) { self.template get<features_type>("features").evict_to(50'000'000); });
    ///
    /// Meanwhile the rows of keyed tables are held (keyed_table::hold) that a worker has pulled, by its last 16 pulls of the table at
    /// most, and not pushed since: none is given up between the read of a worker and its update. After a restart of the server that is
    /// none, up to the next pulls. A task may add others, and must not call `handle` or `run`. What it throws ends the run for all, with its words.
    /// Throws value_error for 0 pushes, and for no task.
    void after_every(std::uint64_t pushes, std::function<void(server&)> task) {
        if (pushes == 0) detail::fail<value_error>("after_every: pushes = 0: must be > 0");
        if (!task) detail::fail<value_error>("after_every: there is no task: give a function");
        tasks_.push_back({pushes, pushes_ / pushes, std::move(task)});
    }

    /// Whether every worker has stopped, `finished()`; `reopen()` lets them begin again, to train on from a checkpoint of the end.
    bool finished() const {
        return std::all_of(workers_.begin(), workers_.end(),
                           [](detail::worker_positions const& w) { return w.stopped; });
    }
    void reopen() {
        for (auto& w : workers_) w.stopped = false;
    }

    /// Writes parameters, rows and the positions of all workers to one file, by gradstep/io/checkpoint.hpp, which must be included.
    /// The file is there once it is whole and on the disk; until then the one before is. Throws io_error, and sequence_error where
    /// an average is in the place of weights.
    template <class Files = gradstep::detail::checkpoint_files> void save(std::string const& file) {
        if constexpr (gradstep::detail::require_checkpoints<Files>()) {
            std::vector<row_progress> progress(parameters_.size()); // what is saved refers to it
            detail::server_positions const own = positions_now();
            std::vector<gradstep::detail::saved_state> all{own.state()};
            auto next = progress.begin();
            for (auto const& one : parameters_) {
                all.push_back(one->what->state(*next++));
                all.back().name = one->what->entry.name;
            }
            Files::save(file, all);
            pushes_saved_ = pushes_;
            for (std::size_t w = 0; w != workers_.size(); ++w) {
                if (workers_[w].durable == workers_[w].applied) continue;
                workers_[w].durable = workers_[w].applied;
                if (save_ != nullptr) acknowledge(w);
            }
        }
    }
    /// Goes on from where `save` was called, with the parameters of that one. Throws value_error or size_error for a file of something
    /// else, another server's among it, io_error; a parameter that was refused is as it was, and so are those after it.
    template <class Files = gradstep::detail::checkpoint_files> void load(std::string const& file) {
        if constexpr (gradstep::detail::require_checkpoints<Files>()) {
            Files const files(file);
            detail::server_positions read = positions_now();
            std::vector<gradstep::detail::saved_state> names{read.state()};
            for (auto const& one : parameters_) names.emplace_back().name = one->what->entry.name;
            files.require_nothing_else(names);
            auto const own = files.of(detail::server_positions::name);
            gradstep::detail::require_same(own, names[0]);
            gradstep::detail::read_into(own, names[0]);
            for (auto const& one : parameters_) one->what->load(files.of(one->what->entry.name));
            take_positions(read);
        }
    }
    /// Goes on from this file, of this server alone, where it is there, and writes it anew after every so many pushes that this server
    /// has applied, of all workers and parameters (0: not by their number), when a worker can keep no more of what it has sent or is
    /// about to stop, unless what it has sent is in the file already, and when all have stopped. Called after all `add`, and before `run`; gradstep/io/checkpoint.hpp must be included. While it writes, it
    /// answers nobody. Workers keep what they have pushed until it is in the file. Throws as `load`; and where another server writes
    /// the same file, the next write is a value_error.
    template <class Files = gradstep::detail::checkpoint_files> void checkpoint(std::string file, std::uint64_t every) {
        if (is_there(file)) load<Files>(file);
        file_ = std::move(file);
        every_ = every;
        save_ = [](server& self, std::string const& to) {
            if (is_there(to))
                if (auto const there = Files(to).of(detail::server_positions::name).state().rule;
                    there != self.positions_now().rule())
                    detail::fail<value_error>({to, ": is of ", there, ", and this is ", self.positions_now().rule(),
                                               ": give each server a file of its own"});
            self.save<Files>(to);
        };
    }

private:
    // Only a file that is known not to be there is none: one that cannot be seen now may be the job's checkpoint.
    static bool is_there(std::string const& file) {
        if (::access(file.c_str(), F_OK) == 0) return true;
        if (int const why = errno; why != ENOENT)
            detail::fail<io_error>({file, ": cannot be looked for: ", std::strerror(why)});
        return false;
    }
    template <class Type> struct of_type { using type = Type; };
    template <class E, class R, class G, class S, class B> struct of_type<updater<E, R, G, S, B>> {
        using type = parameter<updater<E, R, G, S, B>>;
    };
    template <class Table> static constexpr bool is_keyed = !requires(Table & t) { t.grow(0); };

    // ---- what is served

    void check_new(std::string const& name, bool adds_deltas) const {
        parameters_.require_new(name);
        gradstep::detail::require_storable_name("add", name);
        if (options_.mode == server_mode::geo && !adds_deltas)
            detail::fail<value_error>(
                {"add: ", name, ": the mode is geo, in which workers send deltas: the rule must be add_delta"});
    }
    void check_compensation(std::string const& name, double lambda, bool of_integers) const {
        if (!ranges::non_negative.contains(lambda))
            detail::fail<value_error>(
                {"add: ", name, ": delay_compensation = ", lambda, ": must be ", ranges::non_negative.text});
        if (lambda != 0 && (options_.mode != server_mode::asynchronous || of_integers))
            detail::fail<value_error>({"add: ", name, ": delay_compensation = ", lambda, ": must be 0 ",
                                       of_integers ? "for integers" : "unless the mode is asynchronous"});
    }
    piece own_piece(std::string_view name, std::size_t elements, bool may_be_split) const {
        if (may_be_split && elements >= options_.split_from) return piece_of(elements, options_.num_servers, rank_);
        bool const own = shard_of(name, num_servers()) == static_cast<std::uint32_t>(rank_);
        return {0, own ? elements : 0};
    }
    template <class Type, class... Args> void push_back(detail::wire_entry entry, Args&&... args) {
        if (begun_)
            detail::fail<sequence_error>({"add: ", entry.name, ": a worker has come: add all parameters first"});
        auto added = std::make_unique<Type>(std::move(entry), std::forward<Args>(args)...);
        std::string const& name = added->entry.name;
        row_progress at;
        std::vector<std::string> tensors{name};
        for (auto const& x : added->state(at).tensors)
            if (!x.slot.empty()) tensors.push_back(name + "/" + x.slot);
        for (std::string const& each : tensors)
            if (in_files_.contains(each))
                detail::fail<value_error>({"add: ", gradstep::detail::in_quotes(name), " has a tensor ",
                                           gradstep::detail::in_quotes(each),
                                           " in checkpoints, as another one has; expected another name"});
        in_files_.insert(tensors.begin(), tensors.end());
        parameters_.add(std::move(added), workers_.size());
    }

    // ---- what is answered

    std::uint32_t num_servers() const { return static_cast<std::uint32_t>(options_.num_servers); }
    std::size_t number_of(int rank) const {
        return static_cast<std::size_t>(rank) - static_cast<std::size_t>(options_.num_servers);
    }
    int rank_of(std::size_t worker) const { return static_cast<int>(worker) + options_.num_servers; }
    detail::wire_header header(std::size_t to, detail::wire_kind kind) const {
        detail::wire_header out;
        out.kind = kind;
        out.rank = static_cast<std::uint32_t>(rank_);
        out.session = workers_[to].session;
        out.sequence = workers_[to].applied;
        out.previous = workers_[to].durable;
        return out;
    }
    void reply(std::size_t to, detail::wire_header const& with, std::string_view text) {
        auto of_text = with;
        of_text.element = detail::wire_element::none;
        replies_.push_back({rank_of(to), detail::wire_text(of_text, text)});
    }
    void acknowledge(std::size_t to) { reply(to, header(to, detail::wire_kind::applied), {}); }
    void answer_now(std::size_t to, std::uint64_t request) {
        auto with = header(to, detail::wire_kind::released);
        with.request = request;
        reply(to, with, {});
    }
    void begun(std::size_t to) {
        auto with = header(to, detail::wire_kind::begun);
        with.request = number_;
        reply(to, with, {});
    }
    void welcome(std::size_t to) {
        auto with = header(to, detail::wire_kind::welcome);
        with.request = number_;
        with.flags = static_cast<std::uint8_t>((workers_[to].stopped ? detail::wire_flags::stopped : 0) |
                                               (save_ != nullptr ? detail::wire_flags::durable : 0));
        std::vector<detail::wire_entry> all;
        for (auto const& one : parameters_) all.push_back(one->what->entry);
        replies_.push_back(
            {rank_of(to),
             detail::wire_directory(with, {static_cast<std::uint64_t>(options_.mode), options_.split_from}, all)});
    }
    void refuse(int from, std::string_view why) {
        if (number_of(from) >= workers_.size()) return; // no worker: nobody to tell
        auto with = header(number_of(from), detail::wire_kind::refusal);
        with.request = request_;
        reply(number_of(from), with,
              detail::joined({"server ", rank_, " refuses what rank ", from, " has sent: ", why}));
    }
    std::vector<outgoing> refuse_all(std::string_view why) {
        replies_.clear();
        for (std::size_t w = 0; w != workers_.size(); ++w) {
            auto with = header(w, detail::wire_kind::refusal);
            with.flags = detail::wire_flags::of_ranks;
            reply(w, with, detail::joined({"server ", rank_, " has ended: ", why}));
        }
        return std::move(replies_);
    }
    // What a pull needs is its worker's matter: where there is no memory for the answer, all others are served on.
    void answer(detail::served_parameter& of, std::size_t worker, detail::wire_message const& pull) {
        request_ = pull.header.request;
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
    void refuse_answer(detail::served_parameter const& of, std::size_t worker, detail::wire_message const& pull) {
        auto const& entry = of.what->entry;
        refuse(rank_of(worker), detail::joined({entry.name, ": there is no memory for an answer with ",
                                                entry.is_rows ? pull.header.keys : entry.size,
                                                entry.is_rows ? " rows" : " elements", ": pull fewer at once"}));
    }
    void answer_pull(detail::served_parameter& of, std::size_t worker, detail::wire_message const& pull) {
        auto const& entry = of.what->entry;
        auto with = header(worker, detail::wire_kind::weights);
        with.element = entry.element;
        with.parameter = pull.header.parameter;
        if (!options_.check_elements) with.flags = detail::wire_flags::unchecked;
        with.request = pull.header.request;
        std::size_t const elements = entry.is_rows ? pull.keys.size() * static_cast<std::size_t>(entry.width)
                                                   : static_cast<std::size_t>(entry.size);
        detail::wire_writer out(with, 0, elements);
        of.what->read(pull.keys, out.room(elements * detail::bytes_of(entry.element)));
        of.what->has_pulled(worker, pull.keys, !tasks_.empty());
        replies_.push_back({rank_of(worker), out.take()});
        of.pulled[worker] = 1;
        of.pulled_at[worker] = of.steps;
    }

    // ---- what is taken

    void take(int from, std::vector<std::byte> bytes) {
        using detail::wire_kind;
        if (number_of(from) >= workers_.size())
            detail::fail<value_error>({"a message of rank ", from, ", which is no worker"});
        auto const message = detail::wire_message::read(bytes, from);
        auto const& h = message.header;
        std::size_t const w = number_of(from);
        detail::worker_positions& worker = workers_[w];
        if (h.kind == wire_kind::hello) return take_hello(w, message);
        if (h.kind == wire_kind::pull) request_ = h.request;
        if (h.session == 0 || h.session != worker.session) return; // of before a restart: it will come again
        if (h.kind > detail::last_wire_kind_of_workers)
            detail::fail<value_error>({"a message of rank ", from, " is of the kind ",
                                       static_cast<std::uint32_t>(h.kind), ", which servers send"});
        if (h.kind == wire_kind::alive) return;
        if (worker.stopped && h.kind != wire_kind::stop)
            detail::fail<sequence_error>({"rank ", from, " has called stop, which was its last call"});
        if (h.sequence < h.previous)
            detail::fail<value_error>(
                {"a message of rank ", from, " has the position ", h.sequence, " after ", h.previous});
        detail::served_parameter* const of =
            h.kind == wire_kind::pull || h.kind == wire_kind::push ? &parameter_of(h) : nullptr;
        if (of != nullptr) of->require_fits(w, message, rank_, num_servers());
        if (h.previous > worker.received) { // what was sent before was lost
            if (std::exchange(worker.asked, worker.received + 1) != worker.received + 1) ask_again(w);
            return;
        }
        switch (h.kind) {
        case wire_kind::pull:
            worker.receive(h.sequence);
            if (!of->of_worker[w].empty()) {
                of->pulls.push_back({w, std::move(bytes), message});
            } else {
                answer(*of, w, message);
            }
            return;
        case wire_kind::push:
            return take_push(*of, w, std::move(bytes), message);
        case wire_kind::barrier:
            worker.come_to_barrier(h.sequence, h.request, save_ != nullptr);
            acknowledge(w);
            return;
        case wire_kind::save: // what was sent while another's was written is in there
            save_now_ = save_now_ || worker.durable != worker.applied;
            saved_.push_back({w, h.request});
            return;
        default: // stop
            worker.receive(h.sequence);
            worker.stopped = true;
            worker.stop = h.request;
            for (auto const& one : parameters_) one->what->has_left(w);
            save_now_ =
                finished(); // until then it waits for the answer, and says it again to a server that has begun anew
        }
    }
    void take_hello(std::size_t w, detail::wire_message const& hello) {
        std::string const own = detail::wire_description(options_.num_servers, size_);
        if (hello.text() != own)
            detail::fail<value_error>({"rank ", rank_of(w), " is of ", detail::in_quotes(hello.text()), ": must be of ",
                                       detail::in_quotes(own), " as this server"});
        if (hello.header.session == 0)
            detail::fail<value_error>({"rank ", rank_of(w), " has no session: must not be 0"});
        begun_ = true;
        if (workers_[w].session != hello.header.session) {
            workers_[w].begin_anew(hello.header.session);
            for (auto const& one : parameters_) one->forget(w);
        }
        for (auto const& one : parameters_)
            if (std::find(hello.keys.begin(), hello.keys.end(), one->hash) != hello.keys.end()) one->pulled[w] = 1;
        welcome(w);
    }
    detail::served_parameter& parameter_of(detail::wire_header const& h) const {
        if (detail::served_parameter* const found = parameters_.find(h.parameter)) return *found;
        detail::fail<value_error>({"a message of rank ", h.rank, " is for the parameter of the hash ", h.parameter,
                                   ": this server has none of it"});
    }
    void take_push(detail::served_parameter& of, std::size_t w, std::vector<std::byte> bytes,
                   detail::wire_message const& message) {
        detail::worker_positions& worker = workers_[w];
        std::uint64_t const position = message.header.sequence;
        if (position <= worker.received || position <= of.applied[w]) {
            worker.receive(position);
            acknowledge(w);
            return;
        }
        if (options_.mode == server_mode::synchronous) {
            of.of_worker[w].push_back({position, std::move(bytes), message});
            worker.receive_to_wait(position);
            return;
        }
        of.what->update(w, message);
        of.what->has_pushed(w, message.keys);
        late_ += of.steps++ - of.pulled_at[w];
        of.applied[w] = position;
        ++pushes_;
        worker.receive(position);
        acknowledge(w);
        spent_.push_back(std::move(bytes));
    }
    // Steps for as long as every worker that has not stopped has a push; then answers those who have waited for that.
    void merge(detail::served_parameter& of) {
        if (options_.mode != server_mode::synchronous) return;
        for (;;) {
            std::vector<std::size_t> all;
            bool complete = true;
            for (std::size_t w = 0; w != workers_.size() && complete; ++w) {
                if (!of.of_worker[w].empty()) all.push_back(w);
                else complete = workers_[w].stopped;
            }
            if (!complete || all.empty()) break;
            std::vector<detail::wire_message> gradients;
            for (std::size_t const w : all) gradients.push_back(of.of_worker[w].front().message);
            of.what->update(gradients);
            pushes_ += all.size();
            for (std::size_t const w : all) {
                of.what->has_pushed(w, of.of_worker[w].front().message.keys);
                detail::worker_positions& worker = workers_[w];
                of.applied[w] = of.of_worker[w].front().position;
                spent_.push_back(std::move(of.of_worker[w].front().bytes));
                of.of_worker[w].pop_front();
                worker.apply(of.applied[w]);
                acknowledge(w);
            }
        }
        auto const ready = [&](detail::served_parameter::held const& pull) {
            return of.of_worker[pull.worker].empty();
        };
        for (auto const& pull : of.pulls)
            if (ready(pull)) answer(of, pull.worker, pull.message);
        std::erase_if(of.pulls, ready);
    }
    void release_barriers() {
        std::optional<std::uint64_t> all;
        for (auto const& w : workers_)
            if (!w.stopped) all = std::min(all.value_or(w.barriers), w.barriers);
        for (std::size_t w = 0; w != workers_.size(); ++w) {
            if (workers_[w].waits_for == 0 || (all && *all < workers_[w].waits_for)) continue;
            workers_[w].waits_for = 0;
            answer_now(w, workers_[w].barrier);
        }
    }
    // Those whose number of pushes is full again.
    void run_tasks() {
        struct holding {
            std::vector<detail::served*> what;
            ~holding() {
                for (detail::served* const one : what) one->release();
            }
        } rows;
        for (std::size_t i = 0; i != tasks_.size(); ++i) { // a task may add another
            periodic& task = tasks_[i];
            if (std::exchange(task.done, pushes_ / task.every) == pushes_ / task.every) continue;
            if (rows.what.empty()) {
                rows.what.reserve(parameters_.size());
                for (auto const& one : parameters_) {
                    one->what->hold();
                    rows.what.push_back(one->what.get());
                }
            }
            task.call(*this);
        }
    }
    void ask_again(std::size_t w) {
        auto with = header(w, detail::wire_kind::rewind);
        with.sequence = workers_[w].received;
        reply(w, with, {});
    }

    // ---- who is silent

    // For those that wait: the server is there.
    std::vector<outgoing> signs() {
        replies_.clear();
        for (std::size_t w = 0; w != workers_.size(); ++w)
            if (workers_[w].stop != 0 || is_waiting(w)) acknowledge(w);
        return std::move(replies_);
    }

    // A worker owes a sign unless it waits for something: a pull, a barrier, the pushes of others.
    template <class Silent> void require_signs(std::chrono::milliseconds waited, Silent const& silent) const {
        std::vector<int> late, all;
        bool everyone = true;
        for (std::size_t w = 0; w != workers_.size(); ++w) {
            if (workers_[w].stopped) continue;
            all.push_back(rank_of(w));
            if (!silent(w)) everyone = false;
            else if (!is_waiting(w)) late.push_back(rank_of(w));
        }
        if (!late.empty()) detail::refuse_wait(rank_, "the server", waited, late);
        if (everyone && !all.empty())
            detail::refuse_wait(rank_, "the server: the workers wait for each other", waited, all);
    }
    bool is_waiting(std::size_t w) const {
        if (workers_[w].waits_for != 0 || !workers_[w].open.empty()) return true;
        return std::any_of(parameters_.begin(), parameters_.end(), [w](auto const& one) {
            return std::any_of(one->pulls.begin(), one->pulls.end(),
                               [w](detail::served_parameter::held const& pull) { return pull.worker == w; });
        });
    }

    detail::server_positions positions_now() const {
        detail::server_positions out;
        out.workers = workers_.size();
        out.rank = rank_;
        out.servers = options_.num_servers;
        for (auto const& w : workers_) out.add(w);
        for (auto const& one : parameters_)
            out.of_parameters.insert(out.of_parameters.end(), one->applied.begin(), one->applied.end());
        return out;
    }
    void take_positions(detail::server_positions const& from) {
        for (std::size_t w = 0; w != workers_.size(); ++w) workers_[w] = from.of_worker(w);
        auto next = from.of_parameters.begin();
        for (auto const& one : parameters_)
            for (std::size_t w = 0; w != workers_.size(); ++w) {
                one->applied[w] = *next++;
                one->forget(w);
            }
    }

    struct periodic {
        std::uint64_t every, done; // pushes; how often they were full
        std::function<void(server&)> call;
    };
    struct saved_for {
        std::size_t to;
        std::uint64_t request;
    };

    std::set<std::string, std::less<>> in_files_; // names of tensors
    server_options options_;
    int rank_, size_;
    std::uint64_t number_ = detail::wire_number();
    bool begun_ = false;
    detail::served_parameters parameters_;
    std::vector<detail::worker_positions> workers_;
    std::vector<outgoing> replies_; // of the message that is handled
    std::vector<std::vector<std::byte>> spent_;
    std::uint64_t request_ = 0; // that it makes

    std::string file_;
    std::uint64_t every_ = 0;
    void (*save_)(server&, std::string const&) = nullptr;
    // Pushes that were applied, all and those that are in the checkpoint; the steps by which parameters had moved on before them.
    std::uint64_t pushes_ = 0, pushes_saved_ = 0, late_ = 0;
    std::deque<periodic> tasks_;
    bool save_now_ = false;
    std::vector<saved_for> saved_; // who is told of it
};

} // namespace GRADSTEP_ABI
} // namespace gradstep::distributed
