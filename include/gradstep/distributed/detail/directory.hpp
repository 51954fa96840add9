#pragma once
#include <algorithm>
#include <deque>

#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/distributed/detail/wire.hpp>

// Which server holds which parameters, as a worker knows it from their welcomes.
namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// The part of a parameter on one server: elements [first, first + size) of a dense one, or the rows
// of the server's keys.
struct share {
    std::size_t server;
    std::uint64_t first, size;
    bool pulled = false; // by this worker
};

struct known_parameter {
    wire_entry entry; // from the first server with a part of it; `shares` says where the elements are
    std::uint64_t hash;
    std::vector<share> shares; // one for each server with a part of it

    share const* share_of(std::size_t server) const;
    bool is_on(std::size_t server) const { return share_of(server) != nullptr; }
    bool pulled() const;
};

// The keys of one server from a list of keys, and their indices in the list.
struct keys_of_server {
    std::vector<std::uint64_t> keys;
    std::vector<std::size_t> indices;
};

class directory {
public:
    // For the worker of this rank.
    directory(int rank, std::size_t servers) : rank_(rank), services_(servers) {}

    // Adds the welcome of a server. Throws value_error, without effect, if it contradicts the other
    // servers, or the welcome of the same server before it restarted.
    void take(std::size_t server, wire_message const& welcome);
    // After all welcomes: throws value_error unless the shares cover every parameter.
    void require_all_served() const;

    // Returns a parameter by its name. The reference stays valid. Throws value_error if there is
    // none, if it has another element (unless none is given), or if it is no table (`rows`) or is
    // one.
    known_parameter const& parameter(char const* call, std::string_view name, wire_element element, bool rows) const;
    // Whether a server holds a part of any parameter. True for all if there are no parameters.
    bool serves(std::size_t server) const;
    keys_of_server keys_on(std::size_t server, std::span<std::uint64_t const> keys) const;

    // Notes that this worker has pulled a server's part of the parameter with this hash; and the
    // hashes of all such parameters.
    void set_pulled(std::uint64_t hash, std::size_t server);
    std::vector<std::uint64_t> pulled_from(std::size_t server) const;

private:
    template <class Parameters> static auto find(Parameters& all, std::string_view name) -> decltype(&all.front()) {
        auto const found =
            std::find_if(all.begin(), all.end(), [name](auto const& of) { return of.entry.name == name; });
        return found == all.end() ? nullptr : &*found;
    }
    std::size_t owner(std::uint64_t key) const;
    void add(std::size_t server, wire_entry entry);

    void require_same_service(std::size_t server, wire_service const& own) const;
    // Throws value_error if a restarted server lacks a parameter that it had before.
    void require_all_again(std::size_t server, std::span<wire_entry const> entries) const;
    void require_alike(known_parameter const& of, std::size_t server, wire_entry const& entry) const;
    [[noreturn]] void refuse_shares(known_parameter const& of,
                                    std::initializer_list<gradstep::detail::text_arg> what) const;

    int rank_;
    std::vector<std::optional<wire_service>> services_; // for each server, after its welcome
    std::deque<known_parameter> parameters_;            // a deque: references stay valid
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/directory.ipp>
#endif
