// Keyed tables on servers of parameters: rows by the stable hash of their keys, and in the servers'
// checkpoints.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/threads.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>

#include <distributed/check.hpp>

#include "support/catch.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

TEST_CASE("keyed tables on two servers have the rows of one, before and after a restart", "[keyed][distributed]") {
    auto const adagrad = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.5});
    auto const initial = gs::keyed_options{.initial = gs::normal{0, 0.01, 7}};
    gs::keyed_table alone{adagrad, 2, gs::touch_only{}, initial};
    using table = decltype(alone);
    std::string const files[] = {"keyed_server_0_" + std::to_string(::getpid()),
                                 "keyed_server_1_" + std::to_string(::getpid())};
    std::vector<float> const gradients(16, 0.25f);
    auto const keys_of = [](std::uint64_t step) {
        std::vector<std::uint64_t> out;
        for (std::uint64_t i = 0; i != 8; ++i) out.push_back(gs::stable_hash(step * 3 + i));
        out[0] = 0, out[1] = UINT64_MAX;
        return out;
    };
    std::vector<std::vector<float>> differ;
    std::uint64_t rows = 0;
    for (int life = 0; life != 2; ++life)
        gd::thread_ranks(3).run([&](gd::thread_communicator& by) {
            if (by.rank() < 2) {
                gd::server server(by, {.num_servers = 2});
                server.add("features", table(adagrad, 2, gs::touch_only{}, initial));
                server.checkpoint(files[by.rank()], 3);
                server.reopen();
                server.run(by);
                if (by.rank() == 0) rows = server.get<table>("features").num_rows();
                return;
            }
            gd::worker worker(by, {.num_servers = 2});
            std::vector<float> pulled(16), expected(16);
            for (std::uint64_t step = worker.position(), last = step + 10; step != last; ++step) {
                auto const keys = keys_of(step);
                worker.pull("features", keys, pulled);
                alone.rows(keys, expected);
                if (pulled != expected) differ.push_back(pulled);
                std::vector<std::int64_t> const as_signed(keys.begin(), keys.end()); // whose bits count
                worker.push("features", as_signed, gradients);
                alone.update(keys, gradients);
            }
            worker.stop();
        });
    CHECK(differ.empty());
    CHECK(rows > 0);
    CHECK(rows < alone.num_rows());
    for (auto const& file : files) std::remove(file.c_str());
}

TEST_CASE("a server gives up and sends on rows while its workers train, and none that one has read and not updated",
          "[keyed][distributed]") {
    auto const adding = gs::make_updater<float>(gs::add_delta{}, gs::constant{1});
    using table = gs::keyed_table<std::remove_const_t<decltype(adding)>, gs::touch_only>;
    auto const make = [&] { return table(adding, 1, gs::touch_only{}, {.last_touches = true}); };
    // By hand: one worker, messages one by one; the task gives up all rows that are not held.
    gd::thread_ranks(2).run([&](gd::thread_communicator& by) {
        using keys = std::vector<std::uint64_t>;
        if (by.rank() == 0) {
            gd::server server(by);
            server.add("features", make());
            server.after_every(1, [](gd::server& self) { self.get<table>("features").evict_to(0); });
            server.run(by);
            return;
        }
        gd::worker worker(by);
        std::vector<float> row(1);
        auto const read = [&](std::uint64_t key) {
            worker.pull("features", keys{key}, row);
            return row[0];
        };
        auto const add_one = [&](std::uint64_t key) { worker.push("features", keys{key}, std::vector<float>{1}); };
        read(7);
        read(7);
        add_one(7); // which ends the first read of 7, and not the second
        on_ranks::require_equal(read(8), 0.0f, "no row");
        add_one(8); // as by another thread
        on_ranks::require_equal(read(8), 0.0f, "a row that is not held was given up");
        on_ranks::require_equal(read(7), 1.0f, "a row between its read and its update");
        worker.push("features", keys{}, std::vector<float>{});
        worker.push("features", keys{7, 8}, std::vector<float>{6, 5}); // of no pull as it is: ends the second read of 7
        add_one(8);
        on_ranks::require_equal(read(8), 0.0f, "a row that is not held was given up");
        on_ranks::require_equal(read(7), 7.0f, "held by its third read");
        add_one(7);
        add_one(7);
        on_ranks::require_equal(read(7), 0.0f, "a row that is not held was given up");
        // A read of several rows lasts for those that were not updated yet.
        std::vector<float> three(3);
        worker.pull("features", keys{1, 2, 3}, three);
        read(3);
        worker.push("features", keys{2, 1}, std::vector<float>{5, 5});
        add_one(3);
        on_ranks::require_equal(read(1), 0.0f, "a row that is not held was given up");
        on_ranks::require_equal(read(3), 1.0f, "held by its second read");
        for (int i = 0; i != 3; ++i) add_one(3);
        on_ranks::require_equal(read(3), 0.0f, "a row that is not held was given up");
        // If no update follows many reads, the latest 16 reads count.
        read(8);
        for (int i = 0; i != 15; ++i) read(9);
        add_one(8);
        on_ranks::require_equal(read(8), 0.0f, "a row that is held no more was given up");
        worker.stop();
    });
}

TEST_CASE("replicas follow the tables of a server while workers train", "[keyed][distributed]") {
    auto const adding = gs::make_updater<float>(gs::add_delta{}, gs::constant{1});
    using table = gs::keyed_table<std::remove_const_t<decltype(adding)>, gs::touch_only>;
    auto const make = [&] { return table(adding, 2, gs::touch_only{}, {.last_touches = true}); };
    constexpr std::uint64_t steps = 40, workers = 3;
    table replica = make();
    int increments = 0;
    bool equal = false;
    gd::thread_ranks(1 + workers).run([&](gd::thread_communicator& by) {
        if (by.rank() == 0) {
            gd::server server(by);
            server.add("features", make());
            auto const send = [&](gd::server& self) {
                table& features = self.get<table>("features");
                auto const bytes = features.changed_since(replica.clock().step).encode();
                replica.apply(table::changes_type::decode(bytes));
                ++increments;
            };
            server.after_every(7, [](gd::server& self) {
                table& features = self.get<table>("features");
                features.evict_older_than(features.clock().step - 20);
            });
            server.after_every(10, send);
            server.run(by);
            send(server);
            table const& features = server.get<table>("features");
            std::vector<std::uint64_t> const keys = features.keys();
            std::vector<float> own(2 * keys.size()), sent(2 * keys.size());
            features.rows(keys, own);
            replica.rows(keys, sent);
            equal = own == sent && replica.num_rows() == features.num_rows() && features.counts().evicted > 0;
            return;
        }
        gd::worker worker(by);
        for (std::uint64_t step = 0; step != steps; ++step) {
            std::vector<std::uint64_t> keys;
            for (std::uint64_t i = 0; i != 4; ++i)
                keys.push_back(gs::stable_hash(1000 * static_cast<std::uint64_t>(by.rank()) + step / 4 * 4 + i));
            std::vector<float> rows(8);
            worker.pull("features", keys, rows);
            worker.push("features", keys, std::vector<float>(8, 1));
        }
        worker.stop();
    });
    CHECK(equal);
    CHECK(increments == static_cast<int>(steps * workers / 10) + 1);
}

TEST_CASE("what a task of a server throws ends the run for all with its words; one that cannot be is refused",
          "[keyed][distributed][refuses]") {
    auto const adding = gs::make_updater<float>(gs::add_delta{}, gs::constant{1});
    gd::server refusing(0, 2);
    CHECK_THROWS_WITH(refusing.after_every(0, [](gd::server&) {}),
                      "after_every: pushes: 0 is out of range; expected > 0");
    CHECK_THROWS_WITH(refusing.after_every(1, {}), "after_every: there is no task; expected a function");
    std::string heard;
    CHECK_THROWS_WITH(gd::thread_ranks(2, std::chrono::seconds(300)).run([&](gd::thread_communicator& by) {
        if (by.rank() == 0) {
            gd::server server(by);
            server.add("w", adding, std::vector<float>(1));
            server.after_every(1, [](gd::server&) { throw gs::io_error("the disk of replicas is full"); });
            server.run(by);
            return;
        }
        gd::worker worker(by);
        std::vector<float> w(1);
        worker.pull("w", w);
        worker.push("w", w);
        try {
            worker.stop();
        } catch (gs::error const& why) {
            heard = why.what();
        }
    }),
                      ContainsSubstring("the disk of replicas is full"));
    CHECK(heard == "server 0 has ended: the disk of replicas is full");
}

TEST_CASE("a task of a server adds another, and puts another table in the place of its own", "[keyed][distributed]") {
    auto const adding = gs::make_updater<float>(gs::add_delta{}, gs::constant{1});
    using table = gs::keyed_table<std::remove_const_t<decltype(adding)>, gs::touch_only>;
    int added = 0;
    gd::thread_ranks(2).run([&](gd::thread_communicator& by) {
        std::vector<std::uint64_t> const one{1};
        if (by.rank() == 0) {
            gd::server server(by);
            server.add("features", table(adding, 1));
            server.after_every(2, [&](gd::server& self) {
                for (int i = 0; i != 8; ++i) self.after_every(1, [&](gd::server&) { ++added; });
                self.get<table>("features") = table(adding, 1);
            });
            server.run(by);
            return;
        }
        gd::worker worker(by);
        std::vector<float> row(1);
        for (int i = 0; i != 3; ++i) {
            worker.pull("features", one, row);
            worker.pull("features", one, row); // held while the task runs
            worker.push("features", one, std::vector<float>{1});
        }
        worker.pull("features", one, row);
        on_ranks::require_equal(row[0], 1.0f, "what was pushed since");
        worker.stop();
    });
    CHECK(added == 8);
}
