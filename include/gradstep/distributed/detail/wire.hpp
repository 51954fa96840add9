#pragma once
#include <span>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/number/scalar.hpp>

// The messages between the workers and the servers of parameters (distributed/worker.hpp,
// distributed/server.hpp). All numbers are little-endian.
//
//     0    8   the letters "gs-serve"
//     8    1   version: 1
//     9    1   kind: wire_kind
//     10   1   element: the code of a scalar, or 0
//     11   1   flags: wire_flags
//     12   4   CRC-32C of all other bytes, or of all except the elements (flag `unchecked`):
//              transports such as MPI deliver what was sent, and the checksum of a gradient takes
//              about as long as its step
//     16   8   total number of bytes
//     24   4   rank of the sender
//     28   4   job: the number of the job among those on one transport (server_options.job)
//     32   8   session: a random number of the worker's run; 0 before the server knows it
//     40   8   parameter: stable_hash of its name, or 0
//     48   8   request: the number of a request, also in its answer; in a welcome, a random number
//              of the server's run
//     56   8   sequence   from a worker: its position, the number of its pushes and barriers so far
//                         from a server: the position up to which it has applied the pushes of
//                         the worker
//     64   8   previous   from a worker: the position of its last message to this server
//                         from a server: the position up to which its checkpoint contains them
//     72   8   number of keys
//     80   8   number of elements
//     88       keys, 8 bytes each; then the elements, or the bytes of a text; then zeros up to a
//              multiple of 8
namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
using gradstep::detail::fail;
using gradstep::detail::in_quotes;
using gradstep::detail::joined;
using gradstep::detail::throw_error;

enum class wire_kind : std::uint8_t {
    none,
    // from workers
    hello,   // opens a session. keys: hashes of the parameters it has pulled; text: wire_description
    pull,    // asks for rows, or for a whole parameter
    push,    // a gradient, or a delta
    barrier, // waits for all other workers
    save,    // asks for a checkpoint: the worker can keep no more of its pushes
    stop,    // the last message of the session
    alive,   // heartbeat while the worker waits for another server
    // from servers
    begun,    // the server has started and knows no session: asks for hello
    welcome,  // answers hello. keys, text: its parameters (wire_directory)
    weights,  // answers pull
    applied,  // reports how many pushes of the worker it has applied
    rewind,   // messages after `sequence` are missing: asks for all of them again
    released, // answers barrier, save and stop
    refusal,  // an error message. The server continues; this worker cannot
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
    static_assert(out != wire_element(), "gradstep: server: the elements are of another type; expected float, double, "
                                         "bfloat16, float16, int32 or int64");
    return out;
}
inline char const* name_of(wire_element x) {
    return x == wire_element() ? "no element" : gradstep::detail::info_of(*x.type()).element;
}
inline std::size_t bytes_of(wire_element x) { return x == wire_element() ? 1 : size_of(*x.type()); }

// stopped (welcome, released): the server knows that the worker has stopped. durable (welcome): the
// server writes checkpoints. of_ranks (refusal): the ranks of the two differ. unchecked (weights,
// push): the checksum does not cover the elements.
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
    std::uint32_t rank = 0, job = 0;
    std::uint64_t session = 0, parameter = 0, request = 0, sequence = 0, previous = 0, keys = 0, elements = 0;
};
static_assert(sizeof(wire_header) == 88 && std::is_trivially_copyable_v<wire_header>);

// The bytes that the checksum covers.
std::span<std::byte const> checked_part(wire_header const& h, std::span<std::byte const> message);

// Writes a message: the constructor allocates memory for all of it, then the keys follow, then the
// elements, by `append` or into the memory of `room`. `take` finishes it.
class wire_writer {
public:
    wire_writer(wire_header const& header, std::size_t keys, std::size_t elements);
    void append(void const* from, std::size_t bytes);
    void append(std::span<std::uint64_t const> keys) { append(keys.data(), keys.size_bytes()); }
    std::byte* room(std::size_t bytes);
    std::vector<std::byte> take();
    // Computes the checksum of a message again after its header was changed.
    static void seal(std::vector<std::byte>& message);

private:
    wire_header header_;
    std::vector<std::byte> out_;
};
std::vector<std::byte> wire_text(wire_header const& header, std::string_view text);

// A view of a message: a copy of the header, and spans of the keys and elements in its bytes, which
// must outlive it.
struct wire_message {
    wire_header header = {};
    std::span<std::uint64_t const> keys = {};
    std::span<std::byte const> body = {};

    std::string_view text() const { return {reinterpret_cast<char const*>(body.data()), body.size()}; }
    template <class T> std::span<T const> elements() const {
        return {reinterpret_cast<T const*>(body.data()), static_cast<std::size_t>(header.elements)};
    }

    // Safe for any bytes: throws value_error unless they are a message of this version from rank
    // `from`. The bytes must be aligned like the memory of a std::vector.
    static wire_message read(std::span<std::byte const> bytes, int from);
};

// The ranks of a transport come from one job to the next at different times. What a server of the
// next job says once, to workers whose sessions it does not know yet, can arrive at a rank that is
// still in the last job: that the job has ended (a welcome), or an error. The rank sends this
// message to itself when its session ends, and the next session takes it first.
bool is_for_any_session(std::span<std::byte const> message);
// The header of bytes that begin as a message, without further checks.
std::optional<wire_header> peek_wire_header(std::span<std::byte const> bytes);

// The version, and the numbers of servers and ranks, which must be equal on both sides.
std::string wire_description(int servers, int ranks);

// What one server holds of one parameter.
struct wire_entry {
    std::string name = {}, policies = {};
    wire_element element = {};
    bool is_rows = false;
    // A dense parameter has elements [first, first + size) of `total`; a table has rows of `width`.
    std::uint64_t first = 0, size = 0, total = 0, width = 0;
};
// The server_options that must be equal on all servers: the mode, as an index of wire_mode_names,
// and split_from.
struct wire_service {
    std::uint64_t mode = 0, split_from = 0;
};
inline constexpr std::array wire_mode_names{"synchronous", "asynchronous", "geo"};
inline constexpr std::size_t wire_service_keys = 2;
// What a server serves, as the keys and the text of a welcome: the mode and split_from, then for
// each parameter eight keys; the text has its name and its policies.
std::vector<std::byte> wire_directory(wire_header header, wire_service of, std::span<wire_entry const> all);
std::vector<wire_entry> read_wire_directory(wire_message const& from, wire_service& of);

// A random number for a run of a worker or server. Never 0.
std::uint64_t wire_number();
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/wire.ipp>
#endif
