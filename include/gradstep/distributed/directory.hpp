#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/core/stable_hash.hpp>
#include <gradstep/distributed/wire.hpp>

// What the servers of a job have, by what each has told a worker.
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

// What one server has of a parameter: of a dense one `size` elements from `first` on, of rows those
// whose keys are its own.
struct share {
    std::size_t server;
    std::uint64_t first, size;
    bool pulled = false; // by this worker
};

struct known_parameter {
    wire_entry entry; // as the first server that has it told; where the elements are say the shares
    std::uint64_t hash;
    std::vector<share> shares; // one for each server that has any of it

    share const* share_of(std::size_t server) const;
    bool is_on(std::size_t server) const { return share_of(server) != nullptr; }
    bool pulled() const;
};

// Of some keys those of one server, and the place of each among all.
struct keys_of_server {
    std::vector<std::uint64_t> keys;
    std::vector<std::size_t> places;
};

class directory {
public:
    // Of the worker that is this rank.
    directory(int rank, std::size_t servers) : rank_(rank), services_(servers) {}

    // A server's welcome. Throws value_error where it is not what the others have, or what the same
    // server had before it began anew; then all is as it was.
    void take(std::size_t server, wire_message const& welcome);
    // When all servers have been taken: that their shares are all of every parameter, or a
    // value_error.
    void require_all_served() const;

    // A parameter by its name, which has this element, if one is given, and form; it stays where it
    // is. Throws value_error.
    known_parameter const& parameter(char const* call, std::string_view name, wire_element element, bool rows) const;
    // Whether a server has a part of anything; where none has, they all count as if.
    bool serves(std::size_t server) const;
    keys_of_server keys_on(std::size_t server, std::span<std::uint64_t const> keys) const;

    // That this worker has pulled what a server has of the parameter of a hash; and the hashes of
    // all those.
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
    // A server that has begun anew has what it had.
    void require_all_again(std::size_t server, std::span<wire_entry const> entries) const;
    void require_alike(known_parameter const& of, std::size_t server, wire_entry const& entry) const;
    [[noreturn]] void refuse_shares(known_parameter const& of,
                                    std::initializer_list<gradstep::detail::text_arg> what) const;

    int rank_;
    std::vector<std::optional<wire_service>> services_; // of those that have been taken
    std::deque<known_parameter> parameters_;            // which stay where they are
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/directory.ipp>
#endif
