#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/core/stable_hash.hpp>
#include <gradstep/distributed/served.hpp>
#include <gradstep/distributed/wire.hpp>

// The parameters and tables of a server, each with what its workers have sent for it.
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

struct served_parameter {
    struct queued { // the push of a worker that waits for those of others
        std::uint64_t position;
        std::vector<std::byte> bytes;
        wire_message message;
    };
    struct held { // a pull that waits until the worker's own pushes are in the weights
        std::size_t worker;
        std::vector<std::byte> bytes;
        wire_message message;
    };
    std::unique_ptr<served> what;
    std::uint64_t hash;
    std::vector<std::uint64_t> applied;   // of each worker: the position of its last push that was applied
    std::vector<char> pulled;             // whether each worker has
    std::vector<std::uint64_t> pulled_at; // after how many steps, for the last time
    std::uint64_t steps = 0;              // by pushes, since this server began
    std::vector<std::deque<queued>> of_worker;
    std::vector<held> pulls;

    served_parameter(std::unique_ptr<served> of, std::size_t workers)
        : what(std::move(of)), hash(stable_hash(std::string_view(what->entry.name))), applied(workers), pulled(workers),
          pulled_at(workers), of_worker(workers) {}

    // A worker begins anew.
    void forget(std::size_t worker) {
        of_worker[worker].clear();
        pulled[worker] = 0;
        what->has_left(worker);
        std::erase_if(pulls, [worker](held const& pull) { return pull.worker == worker; });
    }
    // All that can be said of a worker's pull or push before anything is done.
    void require_fits(std::size_t worker, wire_message const& message, int server, std::uint32_t num_servers) const {
        auto const& h = message.header;
        auto const& entry = what->entry;
        auto const refuse = [&](std::initializer_list<gradstep::detail::piece> why) {
            fail<value_error>({"rank ", h.rank, ": ", entry.name, ": ", joined(why)});
        };
        if (!entry.is_rows && !message.keys.empty()) refuse({"has ", h.keys, " keys, and is not of rows"});
        if (entry.is_rows && num_servers > 1)
            for (std::uint64_t const key : message.keys)
                if (auto const owner = shard_of(key, num_servers); owner != static_cast<std::uint32_t>(server))
                    refuse({"the key ", key, " is one of server ", owner, ", and not of server ", server});
        if (entry.is_rows && entry.total != 0)
            for (std::uint64_t const key : message.keys)
                if (key >= entry.total) refuse({"there is no row ", key, ": must be below ", entry.total});
        if (h.kind == wire_kind::pull) {
            if (h.element != entry.element)
                refuse({"is pulled as ", name_of(h.element), ": must be ", name_of(entry.element)});
            return;
        }
        if (h.element != entry.element)
            refuse({"is pushed as ", name_of(h.element), ": must be ", name_of(entry.element)});
        std::uint64_t const elements = entry.is_rows ? h.keys * entry.width : entry.size;
        if (h.elements != elements || (entry.is_rows && h.keys > h.elements))
            refuse({"is pushed with ", h.elements, " elements: must be ", elements});
        if (!pulled[worker])
            fail<sequence_error>({"rank ", h.rank, ": ", entry.name, " is pushed before it was pulled: pull it first"});
    }
};

// In the order of their names, which is that of their positions in a file.
class served_parameters {
public:
    // That a name is none of these, nor of what another server has.
    void require_new(std::string const& name) const {
        if (name.empty() || name.starts_with("gradstep."))
            fail<value_error>({"add: the name ", in_quotes(name), ": must not be empty, nor begin with \"gradstep.\""});
        if (find(name) != nullptr || std::find(elsewhere_.begin(), elsewhere_.end(), name) != elsewhere_.end())
            fail<value_error>({"add: there is a parameter ", name, " already: names must differ"});
        if (served_parameter const* const other = find(stable_hash(std::string_view(name))))
            fail<value_error>(
                {"add: the names ", name, " and ", other->what->entry.name, " have one hash: choose another"});
    }
    void add(std::unique_ptr<served> what, std::size_t workers) {
        auto one = std::make_unique<served_parameter>(std::move(what), workers);
        auto const after = std::find_if(all_.begin(), all_.end(), [&](auto const& other) {
            return other->what->entry.name > one->what->entry.name;
        });
        all_.insert(after, std::move(one));
    }
    void add_elsewhere(std::string name) { elsewhere_.push_back(std::move(name)); }

    // By a name, or by its hash; nullptr where it is none of these.
    served_parameter* find(std::string_view name) const {
        return first_of([&](served_parameter const& one) { return one.what->entry.name == name; });
    }
    served_parameter* find(std::uint64_t hash) const {
        return first_of([&](served_parameter const& one) { return one.hash == hash; });
    }
    std::size_t size() const { return all_.size(); }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.end(); }

private:
    template <class Is> served_parameter* first_of(Is const& is) const {
        auto const found = std::find_if(all_.begin(), all_.end(), [&](auto const& one) { return is(*one); });
        return found == all_.end() ? nullptr : found->get();
    }

    std::vector<std::unique_ptr<served_parameter>> all_;
    std::vector<std::string> elsewhere_;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed
