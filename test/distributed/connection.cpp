#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/distributed/detail/connection.hpp>
#include <support/catch.hpp>

using namespace gradstep::distributed::detail;

namespace {

// A message of a server that has applied all up to one position, and has it in its checkpoint up to
// another.
wire_header at(std::uint64_t applied, std::uint64_t durable) {
    wire_header out;
    out.sequence = applied;
    out.previous = durable;
    return out;
}
wire_header welcome(std::uint64_t number, std::uint64_t applied, std::uint64_t durable,
                    std::uint8_t flags = wire_flags::durable) {
    wire_header out = at(applied, durable);
    out.kind = wire_kind::welcome;
    out.request = number;
    out.flags = flags;
    return out;
}
std::vector<std::uint64_t> kept(connection const& server) {
    std::vector<std::uint64_t> out;
    for (auto const& one : server.kept()) out.push_back(one.position);
    return out;
}
std::vector<std::uint64_t> in_flight(connection const& server) {
    return {server.in_flight().begin(), server.in_flight().end()};
}
using positions = std::vector<std::uint64_t>;
void send(connection& server, std::uint64_t position, std::vector<std::byte> bytes) {
    auto what = server.to_send(position, std::move(bytes));
    server.note_sent(what);
}

} // namespace

TEST_CASE("what a server has not applied is in flight, and what no checkpoint has is kept",
          "[distributed][connection]") {
    connection server;
    CHECK_FALSE(server.is_open());
    server.accept_welcome(welcome(11, 0, 0));
    REQUIRE(server.is_open());
    CHECK(server.number() == 11);
    CHECK(server.is_durable());
    CHECK_FALSE(server.knows_of_stop());
    for (std::uint64_t const position : {2u, 3u, 5u}) send(server, position, {});
    CHECK(server.previous() == 5);
    CHECK(in_flight(server) == positions{2, 3, 5});
    CHECK(server.applied_of(6) == 1);
    server.take_positions(at(3, 2));
    CHECK(in_flight(server) == positions{5});
    CHECK(kept(server) == positions{3, 5});
    CHECK(server.applied_of(6) == 4);
    CHECK(server.durable_of(6) == 2);
    CHECK(server.has_unsaved());
    CHECK(server.forgotten() == 2);
    server.take_positions(at(1, 0)); // which has been overtaken
    CHECK(server.applied() == 3);
    server.take_positions(at(5, 5));
    CHECK(in_flight(server).empty());
    CHECK(kept(server).empty());
    CHECK(server.applied_of(6) == 6);
    CHECK(server.durable_of(6) == 6);
    CHECK_FALSE(server.has_unsaved());
}

TEST_CASE("a server that begins anew is in flight again with what its checkpoint has not",
          "[distributed][connection]") {
    connection server;
    server.accept_welcome(welcome(11, 0, 0));
    for (std::uint64_t position = 1; position != 6; ++position) send(server, position, std::vector<std::byte>(8));
    server.take_positions(at(4, 2));
    CHECK(in_flight(server) == positions{5});
    server.say_hello();
    CHECK_FALSE(server.is_open());
    CHECK_FALSE(server.lost_messages(welcome(12, 2, 2)));
    CHECK(server.lost_messages(welcome(12, 1, 1))); // of an older checkpoint
    server.accept_welcome(welcome(12, 2, 2));
    CHECK(server.number() == 12);
    CHECK(server.applied() == 2);
    CHECK(in_flight(server) == positions{3, 4, 5});
    CHECK(kept(server) == positions{3, 4, 5});
    CHECK(server.kept().front().bytes.size() == 8);
    CHECK(server.previous() == 5);
}

TEST_CASE("of a server without checkpoints nothing is kept", "[distributed][connection]") {
    connection server;
    server.accept_welcome(welcome(11, 4, 0, 0));
    CHECK(server.forgotten() == 4); // a worker that begins anew goes on from there
    CHECK(server.previous() == 4);
    send(server, 5, {});
    CHECK(kept(server).empty());
    CHECK(in_flight(server) == positions{5});
    CHECK(server.durable_of(5) == 0);
    CHECK(server.lost_messages(welcome(12, 0, 0, 0)));
}

TEST_CASE("a worker that begins anew computes again what no checkpoint has", "[distributed][connection]") {
    connection server;
    server.accept_welcome(welcome(11, 9, 6));
    CHECK(server.forgotten() == 6);
    CHECK(server.previous() == 6);
    CHECK(server.applied() == 9);
    CHECK(in_flight(server).empty());
    connection stopped;
    stopped.accept_welcome(welcome(11, 9, 9, wire_flags::durable | wire_flags::stopped));
    CHECK(stopped.knows_of_stop());
}
