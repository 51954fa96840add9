#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <unistd.h>

#include <gradstep/core/bfloat16.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/float16.hpp>
#include <gradstep/core/sealed_bytes.hpp>
#include <gradstep/core/stable_hash.hpp>
#include <gradstep/version.hpp>

// The messages between the workers and the servers of parameters (distributed/worker.hpp, distributed/server.hpp). All numbers are
// little-endian.
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
using gradstep::detail::sealed_checksum;

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

enum class wire_element : std::uint8_t { none, float32, float64, bfloat16, float16, int32, int64 };
inline constexpr std::array wire_element_names{"no element", "float", "double", "bfloat16",
                                               "float16",    "int32", "int64"};
inline constexpr std::array<std::size_t, 7> wire_element_bytes{1, 4, 8, 2, 2, 4, 8};

template <class T> constexpr wire_element wire_element_of() {
    if constexpr (std::is_same_v<T, float>) return wire_element::float32;
    else if constexpr (std::is_same_v<T, double>) return wire_element::float64;
    else if constexpr (std::is_same_v<T, gradstep::bfloat16>) return wire_element::bfloat16;
    else if constexpr (std::is_same_v<T, gradstep::float16>) return wire_element::float16;
    else if constexpr (std::is_same_v<T, std::int32_t>) return wire_element::int32;
    else {
        static_assert(std::is_same_v<T, std::int64_t>,
                      "gradstep: a server holds float, double, bfloat16, float16, int32 or int64");
        return wire_element::int64;
    }
}
inline char const* name_of(wire_element x) { return wire_element_names[static_cast<std::size_t>(x)]; }
inline std::size_t bytes_of(wire_element x) { return wire_element_bytes[static_cast<std::size_t>(x)]; }

// Of welcome: the worker has stopped, by what the server knows; the server keeps checkpoints. Of refusal: it is of other ranks. Of
// weights and push: the checksum leaves out the elements.
struct wire_flags {
    static constexpr std::uint8_t stopped = 1, durable = 2, of_ranks = 4, unchecked = 8, all = 15;
};

struct wire_header {
    char magic[8] = {'g', 's', '-', 's', 'e', 'r', 'v', 'e'};
    std::uint8_t version = 1;
    wire_kind kind = wire_kind::none;
    wire_element element = wire_element::none;
    std::uint8_t flags = 0;
    std::uint32_t checksum = 0;
    std::uint64_t bytes = 0;
    std::uint32_t rank = 0, zero = 0;
    std::uint64_t session = 0, parameter = 0, request = 0, sequence = 0, previous = 0, keys = 0, elements = 0;
};
static_assert(sizeof(wire_header) == 88 && std::is_trivially_copyable_v<wire_header>);

inline std::span<std::byte const> checked_part(wire_header const& h, std::span<std::byte const> message) {
    if ((h.flags & wire_flags::unchecked) == 0 || h.keys > (message.size() - sizeof h) / 8) return message;
    return message.first(sizeof h + static_cast<std::size_t>(8 * h.keys));
}

// A message that is written: room for all of it, its keys, then its elements, piece by piece or as memory to write to; take() ends it.
class wire_writer {
public:
    wire_writer(wire_header const& header, std::size_t keys, std::size_t elements) : header_(header) {
        header_.keys = keys;
        header_.elements = elements;
        std::size_t const all = sizeof header_ + 8 * keys + elements * bytes_of(header.element);
        header_.bytes = (all + 7) / 8 * 8;
        out_.reserve(static_cast<std::size_t>(header_.bytes));
        append(&header_, sizeof header_);
    }
    void append(void const* from, std::size_t bytes) {
        auto const first = static_cast<std::byte const*>(from);
        out_.insert(out_.end(), first, first + bytes);
    }
    void append(std::span<std::uint64_t const> keys) { append(keys.data(), keys.size_bytes()); }
    std::byte* room(std::size_t bytes) {
        out_.resize(out_.size() + bytes);
        return out_.data() + (out_.size() - bytes);
    }
    std::vector<std::byte> take() {
        out_.resize(static_cast<std::size_t>(header_.bytes));
        seal(out_);
        return std::move(out_);
    }
    // Of a message whose header has been written to.
    static void seal(std::vector<std::byte>& message) {
        wire_header h;
        std::memcpy(&h, message.data(), sizeof h);
        std::uint32_t const sum = sealed_checksum(checked_part(h, message));
        std::memcpy(message.data() + 12, &sum, sizeof sum);
    }

private:
    wire_header header_;
    std::vector<std::byte> out_;
};
inline std::vector<std::byte> wire_text(wire_header const& header, std::string_view text) {
    wire_writer out(header, 0, text.size());
    out.append(text.data(), text.size());
    return out.take();
}

// A message that is read: the header, and where its keys and elements lie in the bytes, which stay where they are.
struct wire_message {
    wire_header header = {};
    std::span<std::uint64_t const> keys = {};
    std::span<std::byte const> body = {};

    std::string_view text() const { return {reinterpret_cast<char const*>(body.data()), body.size()}; }
    template <class T> std::span<T const> elements() const {
        return {reinterpret_cast<T const*>(body.data()), static_cast<std::size_t>(header.elements)};
    }

    // Any bytes: what is no message of this version from that rank is a value_error. The memory is aligned as std::vector has it.
    static wire_message read(std::span<std::byte const> bytes, int from) {
        static_assert(std::endian::native == std::endian::little,
                      "gradstep: messages are little-endian, and this machine is not");
        auto const refuse = [from](std::initializer_list<gradstep::detail::piece> why) {
            fail<value_error>({"a message of rank ", from, " ", joined(why)});
        };
        wire_message out;
        wire_header& h = out.header;
        if (bytes.size() < sizeof h)
            refuse({"has ", bytes.size(), " bytes: must have at least ", sizeof h, ", the header"});
        wire_header const expected;
        std::memcpy(&h, bytes.data(), sizeof h);
        if (std::memcmp(h.magic, expected.magic, sizeof h.magic) != 0)
            refuse({"does not begin with \"gs-serve\": these are other bytes"});
        if (h.version != expected.version)
            refuse({"is of version ", std::uint32_t{h.version}, ": must be ", std::uint32_t{expected.version}});
        if (h.bytes != bytes.size()) refuse({"has ", bytes.size(), " bytes, and says ", h.bytes});
        if (std::uint32_t const sum = sealed_checksum(checked_part(h, bytes)); sum != h.checksum)
            refuse({"has the checksum ", sum, ", and says ", h.checksum, ": it was changed on its way"});
        if (h.kind == wire_kind::none || h.kind > last_wire_kind)
            refuse({"is of the kind ", static_cast<std::uint32_t>(h.kind), ": there is none"});
        if (h.element > wire_element::int64)
            refuse({"has the element ", static_cast<std::uint32_t>(h.element), ": there is none"});
        if (h.zero != 0 || (h.flags & ~wire_flags::all) != 0) refuse({"has flags that there are not"});
        if (h.rank != static_cast<std::uint32_t>(from)) refuse({"says that it is of rank ", h.rank});
        std::size_t const room = bytes.size() - sizeof h, each = bytes_of(h.element);
        if (h.keys > room / 8 || h.elements > (room - 8 * h.keys) / each ||
            (8 * h.keys + h.elements * each + 7) / 8 * 8 != room)
            refuse({"has ", room, " bytes after its header, and says ", h.keys, " keys and ", h.elements,
                    " elements of ", each, " bytes"});
        auto const keys = bytes.subspan(sizeof h, static_cast<std::size_t>(8 * h.keys));
        out.keys = {reinterpret_cast<std::uint64_t const*>(keys.data()), static_cast<std::size_t>(h.keys)};
        out.body = bytes.subspan(sizeof h + keys.size(), static_cast<std::size_t>(h.elements) * each);
        return out;
    }
};

// What both ends must be: their versions, and how many ranks of each sort there are.
inline std::string wire_description(int servers, int ranks) {
    return joined({"gradstep ", GRADSTEP_VERSION_MAJOR, ".", GRADSTEP_VERSION_MINOR, ".", GRADSTEP_VERSION_PATCH, ", ",
                   servers, servers == 1 ? " server" : " servers", " among ", ranks, " ranks"});
}

// What a server has of one parameter.
struct wire_entry {
    std::string name = {}, policies = {};
    wire_element element = wire_element::none;
    bool is_rows = false;
    // Of the elements of a dense parameter those from `first` on, `size` of `total`; of rows their width.
    std::uint64_t first = 0, size = 0, total = 0, width = 0;
};
// Of server_options what all servers must have alike: the mode, by its place in wire_mode_names, and split_from.
struct wire_service {
    std::uint64_t mode = 0, split_from = 0;
};
inline constexpr std::array wire_mode_names{"synchronous", "asynchronous", "geo"};
inline constexpr std::size_t wire_service_keys = 2;
// What a server does, as the keys and the text of a welcome: the mode, split_from, and for each parameter eight keys, its name
// and its policies.
inline std::vector<std::byte> wire_directory(wire_header header, wire_service of, std::span<wire_entry const> all) {
    std::vector<std::uint64_t> keys{of.mode, of.split_from};
    std::string text;
    for (wire_entry const& x : all) {
        keys.insert(keys.end(), {static_cast<std::uint64_t>(x.element), x.is_rows, x.first, x.size, x.total, x.width,
                                 x.name.size(), x.policies.size()});
        text += x.name + x.policies;
    }
    wire_writer out(header, keys.size(), text.size());
    out.append(keys);
    out.append(text.data(), text.size());
    return out.take();
}
inline std::vector<wire_entry> read_wire_directory(wire_message const& from, wire_service& of) {
    auto const refuse = [&](char const* why) {
        fail<value_error>({"a message of rank ", from.header.rank, " has a list of parameters that ", why});
    };
    std::vector<wire_entry> out;
    if (from.keys.size() % 8 != wire_service_keys) refuse("breaks off");
    of = {from.keys[0], from.keys[1]};
    if (of.mode >= wire_mode_names.size()) refuse("names a mode that there is not");
    std::string_view text = from.text();
    auto const letters = [&](std::uint64_t count) {
        if (count > text.size()) refuse("says more letters than it has");
        std::string_view const word = text.substr(0, static_cast<std::size_t>(count));
        text.remove_prefix(word.size());
        return std::string(word);
    };
    for (std::size_t i = wire_service_keys; i != from.keys.size(); i += 8) {
        auto const k = from.keys.subspan(i, 8);
        if (k[0] == 0 || k[0] > static_cast<std::uint64_t>(wire_element::int64) || k[1] > 1)
            refuse("names an element that there is not");
        if (k[1] == 0 && (k[2] > k[4] || k[3] > k[4] - k[2])) refuse("has pieces beyond the end of a parameter");
        if (k[1] == 1 && k[5] == 0) refuse("has rows of width 0");
        wire_entry x;
        x.element = static_cast<wire_element>(k[0]);
        x.is_rows = k[1] == 1;
        x.first = k[2], x.size = k[3], x.total = k[4], x.width = k[5];
        x.name = letters(k[6]);
        x.policies = letters(k[7]);
        out.push_back(std::move(x));
    }
    if (!text.empty()) refuse("has letters too many");
    return out;
}

// A number that nobody else has drawn, never 0: of a worker or a server when it begins.
inline std::uint64_t wire_number() {
    static std::atomic<std::uint64_t> count = 0;
    std::timespec now{};
    std::timespec_get(&now, TIME_UTC);
    auto const of_time =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
    auto const of_process = static_cast<std::uint64_t>(::getpid()) << 32 | count++;
    return (stable_hash(of_time) ^ stable_hash(of_process)) | 1;
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed
