#pragma once
#include <gradstep/bytes/detail/saved_names.hpp>
#include <gradstep/distributed/detail/liveness.hpp>

namespace gradstep::distributed::inline GRADSTEP_ABI {
GRADSTEP_DEFINE server::server(int rank, int size, server_options options) : protocol_(rank, size, options) {}
GRADSTEP_DEFINE server::server(server&&) noexcept = default;
GRADSTEP_DEFINE server& server::operator=(server&&) noexcept = default;
GRADSTEP_DEFINE server::~server() = default;

// ---- Parameters

GRADSTEP_DEFINE void server::check_new(std::string const& name, bool adds_deltas) const {
    protocol_.parameters.require_new(name);
    gradstep::detail::require_storable_name("add", name);
    if (protocol_.options().mode == server_mode::geo && !adds_deltas)
        detail::fail<value_error>({"add: ", name}, {"the mode is geo, in which workers send deltas"},
                                  {"the rule add_delta"});
}

GRADSTEP_DEFINE void server::check_duplicates(std::string const& name, duplicates what) const {
    if (protocol_.options().mode == server_mode::synchronous && what != duplicates::sum)
        detail::fail<value_error>(
            {"add: ", name},
            {"the mode is synchronous, in which a step has the rows of all workers, of which several may name one"},
            {"a table whose duplicates are sum"});
}

GRADSTEP_DEFINE detail::wire_entry server::dense_entry(std::string name, detail::wire_element element,
                                                       std::size_t elements, bool may_be_split,
                                                       gradstep::detail::saved_policies policies,
                                                       served_options const& options) const {
    server_options const& own = protocol_.options();
    double const lambda = options.delay_compensation;
    bool const of_integers = gradstep::detail::is_integer(*element.type());
    if (!ranges::non_negative.contains(lambda))
        detail::fail<value_error>({"add: ", name, ": delay_compensation"}, {lambda, " is out of range"},
                                  {ranges::non_negative.text});
    if (lambda != 0 && (own.mode != server_mode::asynchronous || of_integers))
        detail::fail<value_error>({"add: ", name, ": delay_compensation"}, {lambda, " is out of range"},
                                  {"0 ", of_integers ? "for integers" : "unless the mode is asynchronous"});
    detail::wire_entry out;
    out.element = element;
    out.total = elements;
    if (may_be_split && elements >= own.split_from) {
        shard const shard = shard_of_rank(elements, own.num_servers, protocol_.rank());
        out.first = shard.first;
        out.size = shard.size();
    } else if (shard_of(std::string_view(name), protocol_.num_servers()) ==
               static_cast<std::uint32_t>(protocol_.rank())) {
        out.size = elements;
    }
    out.name = std::move(name);
    out.policies = detail::policies_text(policies, lambda, options.id);
    return out;
}

GRADSTEP_DEFINE void server::add_served(std::unique_ptr<detail::served_parameter> added) {
    std::string const& name = added->entry.name;
    if (protocol_.has_begun())
        detail::fail<sequence_error>({"add: ", name}, {"a worker has connected"},
                                     {"all parameters before the first worker"});
    row_progress at;
    std::vector<std::string> tensors{name};
    for (auto const& x : added->state(at).tensors)
        if (!x.slot.empty()) tensors.push_back(name + "/" + x.slot);
    for (std::string const& each : tensors)
        if (in_files_.contains(each))
            detail::fail<value_error>({"add"},
                                      {gradstep::detail::in_quotes(name), " has a tensor ",
                                       gradstep::detail::in_quotes(each), " in checkpoints, as another one has"},
                                      {"another name"});
    in_files_.insert(tensors.begin(), tensors.end());
    protocol_.parameters.add(std::move(added));
}

GRADSTEP_DEFINE void* server::address_of(std::string_view name, gradstep::detail::type_id type) {
    detail::served_parameter* const found = protocol_.parameters.find(name);
    void* const address = found == nullptr ? nullptr : found->as(type);
    if (address == nullptr)
        detail::fail<value_error>(
            {"get"}, {name, found == nullptr ? " is not on this server" : " is of another type"},
            {found == nullptr ? "the name of a parameter of this server" : "the type that was added"});
    return address;
}

// ---- Messages

GRADSTEP_DEFINE std::vector<outgoing> server::handle(int from, std::vector<std::byte> bytes) {
    protocol_.take(from, std::move(bytes));
    run_tasks();
    checkpoint_.save_if_due(protocol_);
    return protocol_.finish();
}

GRADSTEP_DEFINE std::vector<outgoing> server::begin() { return protocol_.begin(); }

GRADSTEP_DEFINE void server::serve(detail::any_messenger& ranks) {
    using clock = detail::liveness::clock;
    if (ranks.rank() != protocol_.rank() || ranks.size() != protocol_.size())
        detail::fail<value_error>({"run"}, {"the messenger is rank ", ranks.rank(), " of ", ranks.size()},
                                  {"rank ", protocol_.rank(), " of ", protocol_.size(), ", as the server"});
    auto const send = [&](std::vector<outgoing> all) {
        for (auto& each : all) ranks.send(each.to, std::move(each.bytes));
    };
    gradstep::detail::rethrow_as<std::exception>(
        [&] {
            send(begin());
            detail::liveness workers(num_workers(), ranks.timeout());
            while (!finished()) {
                auto got = ranks.receive(workers.wait());
                auto const now = clock::now();
                if (got) {
                    workers.note_alive(protocol_.number_of(got->from), now);
                    send(handle(got->from, std::move(got->bytes)));
                    for (auto& memory : spent()) ranks.reuse(std::move(memory));
                    workers.add_busy_time(clock::now() - now); // a checkpoint can take long
                    if (!workers.is_check_due(now)) continue;
                }
                if (workers.begin_check(now)) send(protocol_.heartbeats());
                workers.check(protocol_, now);
            }
        },
        [&](std::exception const& failed) { send(protocol_.refuse_all(failed.what())); });
}

// ---- Tasks

GRADSTEP_DEFINE void server::after_every(std::uint64_t pushes, std::function<void(server&)> task) {
    if (pushes == 0) detail::fail<value_error>({"after_every: pushes"}, {"0 is out of range"}, {"> 0"});
    if (!task) detail::fail<value_error>({"after_every"}, {"there is no task"}, {"a function"});
    tasks_.push_back({pushes, protocol_.pushes() / pushes, std::move(task)});
    protocol_.hold_rows();
}

// Runs the tasks whose number of pushes is full again.
GRADSTEP_DEFINE void server::run_tasks() {
    struct rows_on_hold {
        std::vector<detail::served_parameter*> what;
        ~rows_on_hold() {
            for (detail::served_parameter* const one : what) one->release();
        }
    } rows;
    for (std::size_t i = 0; i != tasks_.size(); ++i) { // a task may add another
        periodic& task = tasks_[i];
        std::uint64_t const full = protocol_.pushes() / task.every;
        if (std::exchange(task.done, full) == full) continue;
        if (rows.what.empty()) {
            rows.what.reserve(protocol_.parameters.size());
            for (auto const& one : protocol_.parameters) {
                one->hold();
                rows.what.push_back(one.get());
            }
        }
        task.call(*this);
    }
}
} // namespace gradstep::distributed::inline GRADSTEP_ABI
