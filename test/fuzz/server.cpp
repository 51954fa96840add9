// Messages to a server of parameters: whatever ranks send, what is refused changes nothing, and a
// worker that keeps to the rules is served after all of it. The target puts sizes, ranks, sessions
// and checksums right, or little behind them would be read.
//
// An input is messages, each after 2 bytes of its length (little-endian) and 1 that says which rank
// it is of.
#include "keyed_subjects.hpp"

#include <cstring>

#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/saved/blob.hpp>

namespace gd = gradstep::distributed;

namespace {

using bytes = std::vector<std::byte>;
using gd::detail::wire_header;
using gd::detail::wire_kind;
using gd::detail::wire_message;
using gd::detail::wire_writer;

constexpr int num_ranks = 3;
constexpr std::uint64_t session_of(int rank) { return 100 + static_cast<std::uint64_t>(rank); }
auto const adding = gs::make_updater<float>(gs::add_delta{}, gs::constant{1}, gs::serial_backend{});
using dense_type = gs::parameter<std::remove_const_t<decltype(adding)>>;

gd::server serving(gd::server_mode mode) {
    gd::server out(0, num_ranks, {.mode = mode});
    out.add("dense", adding, std::vector<float>{1, 2, 3});
    out.add("ids", rows(3));
    out.add("keys", keyed(3));
    return out;
}
std::string everything(gd::server& of) {
    return state(of.get<dense_type>("dense")) + state(of.get<table_type>("ids")) + state(of.get<keyed_type>("keys"));
}

bytes written(wire_kind kind, int rank, char const* name, std::uint64_t position, std::span<std::uint64_t const> keys,
              std::span<float const> elements) {
    wire_header header;
    header.kind = kind;
    header.rank = static_cast<std::uint32_t>(rank);
    header.session = session_of(rank);
    header.request = position + 1;
    header.sequence = position;
    if (kind == wire_kind::push) header.previous = position - 1;
    if (name != nullptr) {
        header.element = gs::scalar::float32;
        header.parameter = gs::stable_hash(std::string_view(name));
    }
    wire_writer out(header, keys.size(), elements.size());
    out.append(keys);
    out.append(elements.data(), elements.size_bytes());
    return out.take();
}
bytes hello(int rank, std::uint64_t session) {
    wire_header header;
    header.kind = wire_kind::hello;
    header.rank = static_cast<std::uint32_t>(rank);
    header.session = session;
    return gd::detail::wire_text(header, gd::detail::wire_description(1, num_ranks));
}

void put_right(bytes& message, int rank) {
    if (message.size() < sizeof(wire_header)) return;
    wire_header header;
    std::memcpy(&header, message.data(), sizeof header);
    header.rank = static_cast<std::uint32_t>(rank);
    header.bytes = message.size();
    if (header.session != 0) header.session = session_of(rank);
    std::memcpy(message.data(), &header, sizeof header);
    wire_writer::seal(message);
}

// The kinds of what a server answers.
std::vector<wire_kind> kinds(std::vector<gd::outgoing> const& all) {
    std::vector<wire_kind> out;
    for (auto const& one : all) {
        fuzz::require(one.to >= 1 && one.to < num_ranks, "an answer to a rank that is no worker");
        auto const message = wire_message::read(one.bytes, 0);
        if (message.header.kind == wire_kind::refusal)
            fuzz::require(fuzz::is_sentence(message.text()), "a refusal that is no sentence");
        out.push_back(message.header.kind);
    }
    return out;
}
bool has(std::vector<wire_kind> const& all, wire_kind kind) {
    return std::find(all.begin(), all.end(), kind) != all.end();
}

bool serve(std::span<std::uint8_t const> input, gd::server_mode mode) {
    gd::server server = serving(mode);
    std::string before = everything(server);
    bool taken = false;
    while (input.size() > 3) {
        std::size_t const length = input[0] + 256u * input[1];
        int const rank = input[2] % num_ranks;
        input = input.subspan(3);
        auto const given = std::as_bytes(input.first(std::min(length, input.size())));
        input = input.subspan(given.size());
        bytes message(given.begin(), given.end());
        put_right(message, rank);
        bool refused = false;
        if (!fuzz::takes([&] { refused = has(kinds(server.handle(rank, message)), wire_kind::refusal); })) {
            // In the synchronous mode a step by the gradients of several may refuse one of them,
            // and the run is over.
            fuzz::require(mode == gd::server_mode::synchronous, "an asynchronous server has ended");
            return taken;
        }
        std::string after = everything(server);
        if (refused && mode == gd::server_mode::asynchronous)
            fuzz::require(after == before, "a message was refused, and has changed something");
        before.swap(after);
        taken = taken || (!refused && message.size() > sizeof(wire_header));
    }
    if (mode == gd::server_mode::synchronous || server.finished()) return taken;
    // A worker that begins anew, after all of it.
    server.reopen();
    int const rank = num_ranks - 1;
    auto const welcome = server.handle(rank, hello(rank, session_of(rank) + 1000));
    fuzz::require(has(kinds(welcome), wire_kind::welcome), "a hello has no welcome");
    std::uint64_t const position = wire_message::read(welcome.back().bytes, 0).header.sequence;
    if (position > UINT64_MAX - 8) return taken;
    auto const with_session = [&](bytes message) {
        std::uint64_t const session = session_of(rank) + 1000;
        std::memcpy(message.data() + 32, &session, sizeof session);
        wire_writer::seal(message);
        return message;
    };
    fuzz::require(
        has(kinds(server.handle(rank, with_session(written(wire_kind::pull, rank, "dense", position, {}, {})))),
            wire_kind::weights),
        "a pull has no weights");
    auto const values = server.get<dense_type>("dense").values();
    std::vector<float> expected(values.begin(), values.end());
    std::vector<float> const delta{1, -1, 0.5f};
    for (std::size_t i = 0; i != expected.size(); ++i) expected[i] += delta[i];
    fuzz::require(
        has(kinds(server.handle(rank, with_session(written(wire_kind::push, rank, "dense", position + 1, {}, delta)))),
            wire_kind::applied),
        "a push is not applied");
    fuzz::require(fuzz::bytes_of(server.get<dense_type>("dense").values()) == fuzz::bytes_of(expected),
                  "a push is applied otherwise");
    return taken;
}

std::string conversation(std::initializer_list<std::pair<int, bytes>> messages) {
    std::string out(1, '\0');
    for (auto const& [rank, message] : messages) {
        out +=
            {static_cast<char>(message.size() % 256), static_cast<char>(message.size() / 256), static_cast<char>(rank)};
        out += fuzz::bytes_of(message);
    }
    return out;
}

} // namespace

std::vector<std::pair<std::string, std::string>> fuzz::written_seeds() {
    std::vector<std::uint64_t> const ids{0, 3}, keys{7, UINT64_MAX};
    std::vector<float> const dense{1, 2, 3}, four{1, -1, 2, -2};
    auto const first = hello(1, session_of(1)), second = hello(2, session_of(2));
    std::string const all = conversation({{1, first},
                                          {1, written(wire_kind::pull, 1, "dense", 0, {}, {})},
                                          {1, written(wire_kind::push, 1, "dense", 1, {}, dense)},
                                          {1, written(wire_kind::pull, 1, "ids", 1, ids, {})},
                                          {1, written(wire_kind::push, 1, "ids", 2, ids, four)},
                                          {1, written(wire_kind::pull, 1, "keys", 2, keys, {})},
                                          {1, written(wire_kind::push, 1, "keys", 3, keys, four)},
                                          {2, second},
                                          {2, written(wire_kind::pull, 2, "dense", 0, {}, {})},
                                          {2, written(wire_kind::push, 2, "dense", 1, {}, dense)},
                                          {1, written(wire_kind::barrier, 1, nullptr, 4, {}, {})},
                                          {2, written(wire_kind::barrier, 2, nullptr, 2, {}, {})},
                                          {2, written(wire_kind::save, 2, nullptr, 2, {}, {})},
                                          {2, written(wire_kind::stop, 2, nullptr, 2, {}, {})},
                                          {1, written(wire_kind::stop, 1, nullptr, 4, {}, {})}});
    std::string synchronous = all;
    synchronous[0] = 1;
    return {{"asynchronous", all},
            {"synchronous", synchronous},
            {"two_hellos", conversation({{1, first}, {2, second}, {1, hello(1, session_of(1))}})}};
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::tally all;
    if (size == 0) return 0;
    all.count(
        serve({data + 1, size - 1}, data[0] % 2 == 0 ? gd::server_mode::asynchronous : gd::server_mode::synchronous));
    return 0;
}
