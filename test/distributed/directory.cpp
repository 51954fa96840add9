#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/distributed/detail/directory.hpp>
#include <support/catch.hpp>

namespace gs = gradstep;
using namespace gradstep::distributed::detail;

namespace {

wire_entry dense(std::string name, std::uint64_t first, std::uint64_t size, std::uint64_t total) {
    wire_entry out;
    out.name = std::move(name);
    out.element = gs::scalar::float32;
    out.first = first, out.size = size, out.total = total;
    out.policies = "sgd";
    return out;
}
wire_entry rows(std::string name, std::uint64_t width) {
    wire_entry out = dense(std::move(name), 0, 0, 0);
    out.is_rows = true;
    out.width = width;
    return out;
}

// What two servers tell rank 3.
struct told {
    directory all{3, 2};

    void by(int server, std::vector<wire_entry> const& entries, wire_service service = {1, 100}) {
        wire_header header;
        header.kind = wire_kind::welcome;
        header.rank = static_cast<std::uint32_t>(server);
        auto const bytes = wire_directory(header, service, entries);
        all.take(static_cast<std::size_t>(server), wire_message::read(bytes, server));
    }
    void by_both() {
        by(1, {dense("w", 6, 4, 10), rows("r", 2)});
        by(0, {dense("w", 0, 6, 10), rows("r", 2), dense("b", 0, 3, 3)});
        all.require_all_served();
    }
};

} // namespace

TEST_CASE("a worker knows of each parameter which server has what", "[distributed][directory]") {
    told servers;
    servers.by_both();
    auto const& w = servers.all.parameter("pull", "w", gs::scalar::float32, false);
    REQUIRE(w.shares.size() == 2);
    REQUIRE(w.is_on(0));
    REQUIRE(w.is_on(1));
    CHECK(w.share_of(0)->first == 0);
    CHECK(w.share_of(0)->size == 6);
    CHECK(w.share_of(1)->first == 6);
    CHECK(w.share_of(1)->size == 4);
    CHECK(w.entry.total == 10);
    CHECK(w.hash == gs::stable_hash("w"));
    auto const& b = servers.all.parameter("size", "b", {}, false);
    CHECK(b.is_on(0));
    CHECK_FALSE(b.is_on(1));
    CHECK(servers.all.serves(0));
    CHECK(servers.all.serves(1));

    auto const refused = [&](std::string_view name, wire_element element, bool of_rows) {
        std::string out;
        try {
            servers.all.parameter("push", name, element, of_rows);
        } catch (gs::value_error const& why) {
            out = why.what();
        }
        return out;
    };
    CHECK(refused("v", gs::scalar::float32, false) == "push: there is no parameter v; expected one of w, r, b");
    CHECK(refused("w", gs::scalar::float32, true) == "push: w is no table; expected no keys");
    CHECK(refused("r", gs::scalar::float32, false) == "push: r is a table; expected keys");
    CHECK(refused("w", gs::scalar::float64, false) == "push: rank 3 has double for w; expected float");
    CHECK_THROWS_WITH(directory(3, 2).parameter("pull", "w", {}, false),
                      "pull: there is no parameter w; expected one that was added");
}

TEST_CASE("a parameter is pulled where all its servers have given it", "[distributed][directory]") {
    told servers;
    servers.by_both();
    auto const& w = servers.all.parameter("push", "w", {}, false);
    CHECK(servers.all.pulled_from(0).empty());
    servers.all.set_pulled(gs::stable_hash("w"), 1);
    CHECK_FALSE(w.pulled());
    servers.all.set_pulled(gs::stable_hash("w"), 0);
    servers.all.set_pulled(gs::stable_hash("b"), 0);
    CHECK(w.pulled());
    CHECK(servers.all.pulled_from(0) == std::vector{gs::stable_hash("w"), gs::stable_hash("b")});
    CHECK(servers.all.pulled_from(1) == std::vector{gs::stable_hash("w")});
}

TEST_CASE("every key is one of the server of its hash", "[distributed][directory]") {
    std::vector<std::uint64_t> keys(100);
    for (std::size_t i = 0; i != keys.size(); ++i) keys[i] = i * i;
    for (std::size_t const servers : {1u, 2u, 5u}) {
        directory const all(9, servers);
        std::size_t count = 0;
        for (std::size_t s = 0; s != servers; ++s) {
            auto const own = all.keys_on(s, keys);
            REQUIRE(own.keys.size() == own.indices.size());
            CHECK(std::is_sorted(own.indices.begin(), own.indices.end()));
            for (std::size_t i = 0; i != own.keys.size(); ++i) {
                CHECK(own.keys[i] == keys[own.indices[i]]);
                CHECK(gs::shard_of(own.keys[i], static_cast<std::uint32_t>(servers)) == s);
            }
            count += own.keys.size();
        }
        CHECK(count == keys.size());
    }
}

TEST_CASE("where servers have nothing, all of them count", "[distributed][directory]") {
    told servers;
    servers.by(0, {});
    servers.by(1, {});
    servers.all.require_all_served();
    CHECK(servers.all.serves(0));
    CHECK(servers.all.serves(1));
    told one;
    one.by(0, {dense("b", 0, 3, 3)});
    one.by(1, {});
    one.all.require_all_served();
    CHECK(one.all.serves(0));
    CHECK_FALSE(one.all.serves(1));
}

TEST_CASE("servers that are not alike are refused, and nothing of them is taken", "[distributed][directory][refuses]") {
    told servers;
    servers.by(1, {dense("w", 6, 4, 10), rows("r", 2)});
    auto const refused = [&](wire_entry const& second, std::string const& why) {
        CHECK_THROWS_WITH(servers.by(0, {dense("new", 0, 3, 3), second}), why);
        CHECK_THROWS_WITH(servers.all.parameter("pull", "new", {}, false),
                          "pull: there is no parameter new; expected one of w, r");
    };
    auto other = dense("w", 0, 6, 10);
    other.element = gs::scalar::float64;
    refused(other, "servers 0 and 1: w: elements double and float; expected the same on all servers");
    refused(dense("r", 0, 6, 6), "servers 0 and 1: r: rows no and yes; expected the same on all servers");
    refused(dense("w", 0, 6, 11), "servers 0 and 1: w: sizes 11 and 10; expected the same on all servers");
    refused(rows("r", 3), "servers 0 and 1: r: widths 3 and 2; expected the same on all servers");
    other = dense("w", 0, 6, 10);
    other.policies = "adam";
    refused(other, "servers 0 and 1: w: policies adam and sgd; expected the same on all servers");
    CHECK_THROWS_WITH(
        servers.by(0, {}, {0, 100}),
        "servers 0 and 1: server_options.mode: synchronous and asynchronous; expected the same on all servers");
    CHECK_THROWS_WITH(servers.by(0, {}, {1, 99}),
                      "servers 0 and 1: server_options.split_from: 99 and 100; expected the same on all servers");
    servers.by(0, {dense("w", 0, 6, 10), rows("r", 2)}); // as if nothing had been
    servers.all.require_all_served();
}

TEST_CASE("the shares of the servers must be all of every parameter", "[distributed][directory][refuses]") {
    auto const refused = [](std::vector<wire_entry> const& first, std::vector<wire_entry> const& second) {
        told servers;
        servers.by(0, first);
        servers.by(1, second);
        std::string out;
        try {
            servers.all.require_all_served();
        } catch (gs::value_error const& why) {
            out = why.what();
        }
        return out;
    };
    CHECK(refused({rows("r", 2)}, {}) ==
          "server 1: has no part of r, which server 0 has; expected the same parameters on every server");
    CHECK(
        refused({}, {dense("w", 6, 4, 10)}) ==
        "server 0: has no part of w, which server 1 has, and of its 10 elements those from 0 on are not on one server "
        "each; expected the same parameters on every server");
    std::string const of_both = "the servers' parts of w: are not all of it, and of its 10 elements those from ";
    std::string const end = " on are not on one server each; expected the same add on every server";
    CHECK(refused({dense("w", 0, 5, 10)}, {dense("w", 6, 4, 10)}) == of_both + "5" + end);   // a gap
    CHECK(refused({dense("w", 0, 7, 10)}, {dense("w", 6, 4, 10)}) == of_both + "6" + end);   // some twice
    CHECK(refused({dense("w", 0, 6, 10)}, {dense("w", 6, 3, 10)}) == of_both + "9" + end);   // the end
    CHECK(refused({dense("w", 0, 10, 10)}, {dense("w", 0, 10, 10)}) == of_both + "0" + end); // all twice
    CHECK(refused({dense("w", 0, 10, 10)}, {}).empty());
    CHECK(refused({dense("w", 0, 0, 0)}, {}).empty());
}

TEST_CASE("a server that begins anew has what it had", "[distributed][directory][refuses]") {
    told servers;
    servers.by_both();
    auto const& w = servers.all.parameter("push", "w", {}, false);
    CHECK_THROWS_WITH(servers.by(1, {dense("w", 6, 4, 10)}),
                      "server 1: has restarted without its part of r; expected the same parameters as before");
    CHECK_THROWS_WITH(servers.by(1, {dense("w", 5, 5, 10), rows("r", 2)}),
                      "server 1: has restarted without its part of w; expected the same parameters as before");
    for (int again = 0; again != 2; ++again) { // what was refused is so each time
        CHECK_THROWS_WITH(
            servers.by(1, {dense("w", 6, 4, 10), rows("r", 2)}, {0, 100}),
            "servers 0 and 1: server_options.mode: asynchronous and synchronous; expected the same on all servers");
        CHECK_THROWS_WITH(servers.by(0, {dense("w", 0, 6, 10), rows("r", 2), dense("b", 0, 3, 3)}, {1, 5}),
                          "server 0: server_options.split_from: 5 after a restart; expected 100, as before");
    }
    servers.by(1, {dense("w", 6, 4, 10), rows("r", 2), dense("more", 0, 1, 1)});
    CHECK(&servers.all.parameter("push", "w", {}, false) == &w);
    CHECK(w.shares.size() == 2);
    CHECK_THROWS_WITH(servers.all.parameter("push", "more", {}, false),
                      "push: there is no parameter more; expected one of w, r, b"); // for workers that begin later
}
