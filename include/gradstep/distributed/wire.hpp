#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/core/scalar.hpp>

// The messages between the workers and the servers of parameters (distributed/worker.hpp,
// distributed/server.hpp). All numbers are little-endian.
//
//     0    8   the letters "gs-serve"
//     8    1   version: 1
//     9    1   kind: wire_kind
//     10   1   element: wire_element
//     11   1   flags: wire_flags
//     12   4   CRC-32C of all other bytes, but for the elements where the flags say so: engines as MPI deliver what was sent, and
//              a step takes hardly longer than a checksum of its gradient
//     16   8   bytes in all
//     24   4   the rank that has sent it
//     28   4   0
//     32   8   session: a number that a worker has drawn when it began; 0 before a server knows it
//     40   8   parameter: the stable hash of its name, or 0
//     48   8   request: the number of a question, which its answer has too; of a welcome, a number that the server has drawn when it began
//     56   8   sequence   of a worker: its position, the number of its pushes and barriers up to this one
//                         of a server: the position up to which it has applied all of the worker's
//     64   8   previous   of a worker: the position of what it has sent to this server before
//                         of a server: the position up to which its checkpoint has them
//     72   8   keys
//     80   8   elements
//     88       keys, 8 bytes each; then the elements, or the bytes of a text; then zeros up to a multiple of 8
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

using gradstep::detail::fail;
using gradstep::detail::in_quotes;
using gradstep::detail::joined;

enum class wire_kind : std::uint8_t {
    none,
    // of workers
    hello, // takes up the service. keys: the hashes of what it has pulled; text: what it is built for (wire_description)
    pull,  // these rows, or the whole parameter
    push,  // a gradient, or a delta
    barrier, // all others, please
    save,    // a checkpoint, since it can keep no more of what it has pushed
    stop,    // was the last
    alive,   // while it waits for another server
    // of servers
    begun,    // it has begun, and knows of no session: hello, please
    welcome,  // to hello. keys, text: its parameters (wire_directory)
    weights,  // to pull
    applied,  // up to where it has applied what the worker has pushed
    rewind,   // something is missing between `sequence` and what has come: all after it again
    released, // to barrier, save and stop
    refusal,  // a sentence; the server serves on, this worker cannot
};
inline constexpr auto last_wire_kind_of_workers = wire_kind::alive, last_wire_kind = wire_kind::refusal;

// The type of the elements of a message, by its code in scalar_table. A text has the code 0.
struct wire_element {
    std::uint8_t code = 0;

    constexpr wire_element() = default;
    constexpr wire_element(scalar type) : code(gradstep::detail::info_of(type).code) {}
    bool operator==(wire_element const&) const = default;
    // Null for texts, and for codes that no type has.
    std::optional<scalar> type() const { return gradstep::detail::scalar_of_code(code); }
};
template <class T> constexpr wire_element wire_element_of() {
    constexpr wire_element out = scalar_of<T>();
    static_assert(out != wire_element(), "gradstep: a server holds float, double, bfloat16, float16, int32 or int64");
    return out;
}
inline char const* name_of(wire_element x) {
    return x == wire_element() ? "no element" : gradstep::detail::info_of(*x.type()).element;
}
inline std::size_t bytes_of(wire_element x) { return x == wire_element() ? 1 : size_of(*x.type()); }

// Of welcome: the worker has stopped, by what the server knows; the server keeps checkpoints. Of
// refusal: it is of other ranks. Of weights and push: the checksum leaves out the elements.
struct wire_flags {
    static constexpr std::uint8_t stopped = 1, durable = 2, of_ranks = 4, unchecked = 8, all = 15;
};

struct wire_header {
    char magic[8] = {'g', 's', '-', 's', 'e', 'r', 'v', 'e'};
    std::uint8_t version = 1;
    wire_kind kind = wire_kind::none;
    wire_element element = {};
    std::uint8_t flags = 0;
    std::uint32_t checksum = 0;
    std::uint64_t bytes = 0;
    std::uint32_t rank = 0, zero = 0;
    std::uint64_t session = 0, parameter = 0, request = 0, sequence = 0, previous = 0, keys = 0, elements = 0;
};
static_assert(sizeof(wire_header) == 88 && std::is_trivially_copyable_v<wire_header>);

std::span<std::byte const> checked_part(wire_header const& h, std::span<std::byte const> message);

// A message that is written: room for all of it, its keys, then its elements, piece by piece or as
// memory to write to; take() ends it.
class wire_writer {
public:
    wire_writer(wire_header const& header, std::size_t keys, std::size_t elements);
    void append(void const* from, std::size_t bytes);
    void append(std::span<std::uint64_t const> keys) { append(keys.data(), keys.size_bytes()); }
    std::byte* room(std::size_t bytes);
    std::vector<std::byte> take();
    // Of a message whose header has been written to.
    static void seal(std::vector<std::byte>& message);

private:
    wire_header header_;
    std::vector<std::byte> out_;
};
std::vector<std::byte> wire_text(wire_header const& header, std::string_view text);

// A message that is read: the header, and where its keys and elements lie in the bytes, which stay
// where they are.
struct wire_message {
    wire_header header = {};
    std::span<std::uint64_t const> keys = {};
    std::span<std::byte const> body = {};

    std::string_view text() const { return {reinterpret_cast<char const*>(body.data()), body.size()}; }
    template <class T> std::span<T const> elements() const {
        return {reinterpret_cast<T const*>(body.data()), static_cast<std::size_t>(header.elements)};
    }

    // Any bytes: what is no message of this version from that rank is a value_error. The memory is
    // aligned as std::vector has it.
    static wire_message read(std::span<std::byte const> bytes, int from);
};

// What both ends must be: their versions, and how many ranks of each sort there are.
std::string wire_description(int servers, int ranks);

// What a server has of one parameter.
struct wire_entry {
    std::string name = {}, policies = {};
    wire_element element = {};
    bool is_rows = false;
    // Of the elements of a dense parameter those from `first` on, `size` of `total`; of rows their
    // width.
    std::uint64_t first = 0, size = 0, total = 0, width = 0;
};
// Of server_options what all servers must have alike: the mode, by its place in wire_mode_names,
// and split_from.
struct wire_service {
    std::uint64_t mode = 0, split_from = 0;
};
inline constexpr std::array wire_mode_names{"synchronous", "asynchronous", "geo"};
inline constexpr std::size_t wire_service_keys = 2;
// What a server does, as the keys and the text of a welcome: the mode, split_from, and for each
// parameter eight keys, its name and its policies.
std::vector<std::byte> wire_directory(wire_header header, wire_service of, std::span<wire_entry const> all);
std::vector<wire_entry> read_wire_directory(wire_message const& from, wire_service& of);

// A number that nobody else has drawn, never 0: of a worker or a server when it begins.
std::uint64_t wire_number();

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/wire.ipp>
#endif
