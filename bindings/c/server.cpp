#include <map>
#include <utility>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/server_configuration.hpp>

#include "parameter.hpp"
#include "table.hpp"
#include "transport.hpp"

using namespace gradstep::c;
namespace gd = gradstep::distributed;

namespace {

// The configuration of a server whose tensors have the types of this library: unsigned integers as
// signed ones.
gd::server_configuration with_storage(gd::server_configuration from) {
    for (auto& one : from.tensors)
        std::visit([](auto& of) { of.type = storage_of(static_cast<std::int32_t>(of.type), of.optimizer.policies); },
                   one.what);
    return from;
}

class held_server {
public:
    held_server(gd::server_configuration from, int rank, int ranks)
        : config_(std::move(from)), rank_(rank), server_(gd::make_server(with_storage(config_), rank, ranks)) {}
    held_server(held_server const&) = delete;
    held_server& operator=(held_server const&) = delete;
    ~held_server() {
        for (auto const& [name, handle] : tables_) shells<gradstep_table>::release(handle);
        for (auto const& [name, handle] : parameters_) shells<gradstep_parameter>::release(handle);
    }

    gd::server& server() { return server_; }
    gradstep_table* table(std::string const& name) {
        if (auto const found = tables_.find(name); found != tables_.end()) return found->second;
        auto made = std::visit(
            [&]<class Given>(Given const& from) -> std::unique_ptr<held_table> {
                if constexpr (std::is_same_v<Given, gradstep::table_configuration>)
                    return std::make_unique<held_table>(std::in_place_index<0>, from,
                                                        server_.get<gradstep::any_table>(name));
                else if constexpr (std::is_same_v<Given, gradstep::keyed_table_configuration>)
                    return std::make_unique<held_table>(std::in_place_index<1>, from,
                                                        server_.get<gradstep::any_keyed_table>(name));
                else refuse(GRADSTEP_BAD_VALUE, {"name"}, {name, " is a parameter"}, {"a table"});
            },
            tensor(name).what);
        return keep(tables_, name, std::move(made));
    }
    gradstep_parameter* parameter(std::string const& name, std::uint64_t& first) {
        auto const* const from = std::get_if<gd::served_parameter_configuration>(&tensor(name).what);
        if (from == nullptr) refuse(GRADSTEP_BAD_VALUE, {"name"}, {name, " is a table"}, {"a parameter"});
        auto& of = server_.get<gradstep::any_parameter>(name);
        bool const is_shard = of.size() != from->size;
        first = is_shard ? gd::shard_of_rank(from->size, config_.options.num_servers, rank_).first : 0;
        if (auto const found = parameters_.find(name); found != parameters_.end()) return found->second;
        auto const dtype = static_cast<std::int32_t>(from->type);
        return keep(parameters_, name, std::make_unique<held_parameter>(from->optimizer, dtype, &of));
    }

    // f(), during which no other call of the server can begin: it would be one of a task.
    template <class F> void busy(char const* call, F const& f) {
        if (busy_) refuse(GRADSTEP_BAD_SEQUENCE, {call}, {"is called by a task of the server"}, {"the call after it"});
        gradstep::detail::rollback_guard const idle([&] { busy_ = false; });
        busy_ = true;
        f();
    }
    std::uint64_t answer(std::vector<gd::outgoing> messages) {
        replies_ = std::move(messages);
        return replies_.size();
    }
    std::uint64_t handle(int from, std::span<std::byte const> bytes) {
        std::vector<std::byte> message; // in the memory of an earlier one, if there is any
        if (!spent_.empty()) {
            message = std::move(spent_.back());
            spent_.pop_back();
        }
        message.assign(bytes.begin(), bytes.end());
        auto const count = answer(server_.handle(from, std::move(message)));
        spent_ = server_.spent();
        return count;
    }
    gd::outgoing const& reply(std::uint64_t index) const {
        if (index >= replies_.size())
            refuse(GRADSTEP_BAD_VALUE, {"index"}, {index, " is out of range"}, {"[0, ", replies_.size(), ")"});
        return replies_[index];
    }

private:
    gd::server_configuration::tensor const& tensor(std::string const& name) const {
        for (auto const& one : config_.tensors)
            if (one.name == name) return one;
        refuse(GRADSTEP_BAD_VALUE, {"name"}, {gradstep::detail::in_quotes(name), " is unknown"},
               {"the name of a tensor of the configuration"});
    }
    template <class Handle, class Held>
    static Handle* keep(std::map<std::string, Handle*>& all, std::string const& name, std::unique_ptr<Held> made) {
        auto const place = all.emplace(name, nullptr).first;
        gradstep::detail::rollback_guard undo([&] { all.erase(place); });
        place->second = shells<Handle>::add(std::move(made));
        undo.dismiss();
        return place->second;
    }

    gd::server_configuration config_;
    int rank_;
    gd::server server_;
    std::vector<gd::outgoing> replies_;
    std::vector<std::vector<std::byte>> spent_;
    std::map<std::string, gradstep_table*> tables_;
    std::map<std::string, gradstep_parameter*> parameters_;
    bool busy_ = false;
};

} // namespace

struct gradstep_server : shell<held_server> {
    static constexpr std::uint64_t living = 0x6772616473746573;
    static constexpr char const* kind = "server";
};

namespace {
template <class F> gradstep_status with(gradstep_server const* server, gradstep_error* error, F const& f) {
    return guarded(error, [&] { f(shells<gradstep_server>::get(server, "server")); });
}
} // namespace

gradstep_status gradstep_server_create(const char* config, size_t config_bytes, int32_t rank, int32_t ranks,
                                       gradstep_server** out, gradstep_error* error) {
    return guarded(error, [&] {
        require(out, "out");
        auto held = read_text(config, config_bytes, [&](std::string_view text) {
            return std::make_unique<held_server>(gd::read_server(text), rank, ranks);
        });
        *out = shells<gradstep_server>::add(std::move(held));
    });
}

gradstep_status gradstep_server_describe(const gradstep_server* server, gradstep_server_info* info,
                                         gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        gd::server const& of = own.server();
        write_known_part(gradstep_server_info{sizeof *info, of.finished(), of.size(), of.pushes(), of.staleness()},
                         info, "gradstep_server_info");
    });
}

gradstep_status gradstep_server_table(gradstep_server* server, const char* name, gradstep_table** out,
                                      gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        require(name, "name");
        require(out, "out");
        *out = own.table(name);
    });
}

gradstep_status gradstep_server_parameter(gradstep_server* server, const char* name, gradstep_parameter** out,
                                          uint64_t* first, gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        require(name, "name");
        require(out, "out");
        std::uint64_t begin = 0;
        *out = own.parameter(name, begin);
        if (first != nullptr) *first = begin;
    });
}

gradstep_status gradstep_server_begin(gradstep_server* server, uint64_t* count, gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        require(count, "count");
        own.busy("begin", [&] { *count = own.answer(own.server().begin()); });
    });
}

gradstep_status gradstep_server_handle(gradstep_server* server, int32_t from, const void* bytes, uint64_t size,
                                       uint64_t* count, gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        require(bytes, "bytes", size);
        require(count, "count");
        own.busy("handle", [&] { *count = own.handle(from, std::span(static_cast<std::byte const*>(bytes), size)); });
    });
}

gradstep_status gradstep_server_message(const gradstep_server* server, uint64_t index, gradstep_message* message,
                                        gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        gd::outgoing const& of = own.reply(index);
        write_known_part(gradstep_message{sizeof *message, of.to, of.bytes.data(), of.bytes.size()}, message,
                         "gradstep_message");
    });
}

gradstep_status gradstep_server_run(gradstep_server* server, const gradstep_transport* transport,
                                    gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        host_transport over(transport);
        own.busy("run", [&] { own.server().run(over); });
    });
}

gradstep_status gradstep_server_after_every(gradstep_server* server, uint64_t pushes, gradstep_task task, void* host,
                                            gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        require(reinterpret_cast<void const*>(task), "task");
        own.server().after_every(pushes, [=](gd::server&) {
            gradstep_error said = GRADSTEP_ERROR_INIT;
            std::int32_t const returned = task(host, server, &said);
            if (returned == 0) return;
            said.message[sizeof said.message - 1] = 0;
            if (said.message[0] != 0)
                gradstep::detail::throw_error<gradstep::value_error>("task: " + std::string(said.message));
            gradstep::detail::fail<gradstep::value_error>({"task"}, {"returned ", returned}, {"0"});
        });
    });
}

gradstep_status gradstep_server_checkpoint(gradstep_server* server, const char* path, uint64_t every,
                                           gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        require(path, "path");
        own.server().checkpoint(path, every);
    });
}

gradstep_status gradstep_server_save_file(gradstep_server* server, const char* path, gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        require(path, "path");
        own.server().save(path);
    });
}

gradstep_status gradstep_server_load_file(gradstep_server* server, const char* path, gradstep_error* error) {
    return with(server, error, [&](held_server& own) {
        require(path, "path");
        own.busy("load_file", [&] { own.server().load(path); });
    });
}

gradstep_status gradstep_server_reopen(gradstep_server* server, gradstep_error* error) {
    return with(server, error, [](held_server& own) { own.busy("reopen", [&] { own.server().reopen(); }); });
}

void gradstep_server_release(gradstep_server* server) { shells<gradstep_server>::release(server); }
