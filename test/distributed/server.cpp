#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <distributed/server_properties.hpp>
#include <gradstep/distributed/geo.hpp>
#include <support/catch.hpp>
#include <support/sanitizers.hpp>

using namespace server_properties;
using namespace std::chrono_literals;

TEST_CASE("a synchronous server steps as one process does on the batches of all workers", "[distributed][server]") {
    for (int const servers : {1, 2, 3})
        for (int const workers : {1, 2, 4}) {
            INFO(servers << " servers, " << workers << " workers");
            REQUIRE_NOTHROW(gd::thread_ranks(servers + workers).run([&](gd::thread_communicator& by) {
                steps_as_one_process(by, servers, servers == 3 ? many_elements : elements);
            }));
        }
}

TEST_CASE("an asynchronous server applies every push once, from several threads of several workers",
          "[distributed][server]") {
    constexpr int workers = 3, threads = 2, pushes = 40;
    for (int const servers : {1, 2}) {
        std::int64_t of_dense = 0, of_rows = 0;
        std::mutex lock;
        job(
            servers, workers, {.split_from = many_elements},
            [](gd::server& server) {
                server.add("dense", counter, std::vector<std::int64_t>(many_elements));
                server.add("rows", gs::table{adding, 50, 2});
            },
            [&](gd::worker& worker, int number) {
                std::vector<std::int64_t> own(many_elements);
                worker.pull("dense", own);
                std::vector<std::thread> all;
                std::vector<std::exception_ptr> failures(threads);
                for (int t = 0; t != threads; ++t)
                    all.emplace_back([&, t] {
                        failures[static_cast<std::size_t>(t)] = gradstep::detail::exception_of([&] {
                            std::vector<std::int64_t> const dense(many_elements, 1);
                            std::vector<float> const rows(8, 1);
                            std::vector<float> pulled(8);
                            for (int k = 0; k != pushes; ++k) {
                                auto const keys = ids(4, seed_of(number, k * threads + t), 50);
                                worker.push("dense", dense);
                                worker.pull("rows", keys, pulled);
                                worker.push("rows", keys, rows);
                            }
                        });
                    });
                for (auto& thread : all) thread.join();
                for (auto const& failure : failures)
                    if (failure) std::rethrow_exception(failure);
                worker.barrier();
                worker.pull("dense", own); // of all workers, after the barrier
                for (auto const x : own)
                    on_ranks::require_equal(x, std::int64_t{workers * threads * pushes}, "after the barrier");
                on_ranks::require_equal(worker.applied(), worker.position(), "applied after a barrier");
                worker.stop();
            },
            [&](gd::server& server) {
                std::lock_guard const guard(lock);
                for (auto const x : server.get<counter_type>("dense").values()) of_dense += x;
                for (auto const x : server.get<counter_table>("rows").values()) of_rows += static_cast<std::int64_t>(x);
            });
        CHECK(of_dense == workers * threads * pushes * std::int64_t{many_elements});
        CHECK(of_rows == workers * threads * pushes * 8);
    }
}

TEST_CASE("one worker of an asynchronous server trains as if alone: FTRL for the wide part, Adagrad for the deep",
          "[distributed][server]") {
    gs::parameter alone{deep, numbers(elements, 1)};
    gs::table rows_alone{wide, num_rows, width, gs::touch_only{}, {.initial = 0.25}};
    for (int const servers : {1, 2}) {
        gs::parameter expected = alone;
        auto rows_expected = rows_alone;
        job(servers, 1, {}, both, [&](gd::worker& worker, int) {
            std::vector<float> dense(elements), rows(5 * width);
            for (int step = 0; step != 20; ++step) {
                auto const keys = ids(5, seed_of(0, step), num_rows);
                worker.pull("deep", dense);
                worker.pull("wide", keys, rows);
                std::vector<float> expected_rows(rows.size());
                rows_expected.rows(keys, expected_rows);
                on_ranks::require(std::equal(dense.begin(), dense.end(), expected.values().begin()),
                                  "the deep part differs");
                on_ranks::require(rows == expected_rows, "the wide part differs");
                for (float& x : dense) x *= 0.5f; // the gradient of w^2 / 4
                worker.push("deep", dense);
                worker.push("wide", keys, rows);
                expected.update(dense);
                rows_expected.update(keys, rows);
            }
            worker.stop();
        });
    }
}

TEST_CASE("two servers share a parameter whose state is in blocks of 8 bits, none of which they divide",
          "[distributed][server]") {
    auto const optimizer = gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{0.1}, gs::serial_backend{});
    gs::parameter alone{optimizer, numbers(many_elements, 1)};
    job(
        2, 1, {.split_from = many_elements},
        [&](gd::server& server) { server.add("w", optimizer, numbers(many_elements, 1)); },
        [&](gd::worker& worker, int) {
            std::vector<float> w(many_elements);
            for (int step = 0; step != 5; ++step) {
                worker.pull("w", w);
                on_ranks::require(std::equal(w.begin(), w.end(), alone.values().begin()), "w differs");
                auto const gradient = numbers(many_elements, seed_of(0, step));
                worker.push("w", gradient);
                alone.update(gradient);
            }
            worker.stop();
        });
}

TEST_CASE("a server adds what workers have optimized", "[distributed][server]") {
    for (auto const mode : {gd::server_mode::synchronous, gd::server_mode::asynchronous}) {
        gs::parameter local{deep, numbers(elements, 1)};
        std::vector<float> weights, delta(elements);
        job(
            1, 1, {.mode = mode}, [](gd::server& server) { server.add("w", adding, numbers(elements, 1)); },
            [&](gd::worker& worker, int) {
                std::vector<float> before(elements);
                for (int step = 0; step != 10; ++step) {
                    worker.pull("w", before);
                    local.update(numbers(elements, seed_of(0, step)));
                    for (std::size_t i = 0; i != elements; ++i) delta[i] = local.values()[i] - before[i];
                    worker.push("w", delta);
                }
                worker.stop();
            },
            [&](gd::server& server) {
                auto const all = server.get<adding_type>("w").values();
                weights.assign(all.begin(), all.end());
            });
        // The last change is rounded, and its sum with the weight; it has made up for what was
        // rounded before.
        for (std::size_t i = 0; i != elements; ++i)
            CHECK(std::abs(weights[i] - local.values()[i]) <= 0x1p-24f * (std::abs(weights[i]) + std::abs(delta[i])));
    }
}

TEST_CASE("a delayed gradient is corrected by what the weights have moved since its worker pulled them",
          "[distributed][server]") {
    constexpr float lambda = 0.5f;
    gd::thread_ranks ranks(3);
    gd::thread_communicator of_server = ranks.begin(0);
    std::vector<float> const initial = numbers(elements, 1);
    gs::parameter expected{deep, initial};
    std::vector<float> weights;
    double staleness = 0;
    std::thread serving_thread([&] {
        gd::server server(of_server);
        server.add("w", deep, initial, {.delay_compensation = lambda});
        server.run(of_server);
        auto const values = server.get<deep_type>("w").values();
        weights.assign(values.begin(), values.end());
        staleness = server.staleness();
    });
    gd::thread_communicator first_rank = ranks.begin(1), second_rank = ranks.begin(2);
    {
        gd::worker first(first_rank), second(second_rank);
        std::vector<float> a(elements), b(elements);
        first.pull("w", a);
        second.pull("w", b);
        auto const of_first = numbers(elements, 5), of_second = numbers(elements, 6);
        first.push("w", of_first); // not delayed
        expected.update(of_first);
        while (first.applied() != 1) first.pull("w", a);
        std::vector<float> corrected(elements);
        for (std::size_t i = 0; i != elements; ++i)
            corrected[i] = std::fma(lambda * of_second[i] * of_second[i], expected.values()[i] - b[i], of_second[i]);
        CHECK(corrected != of_second);
        second.push("w", of_second);
        expected.update(corrected);
        std::thread other([&] { first.stop(); }); // which waits for the second
        second.stop();
        other.join();
    }
    serving_thread.join();
    CHECK(std::equal(weights.begin(), weights.end(), expected.values().begin()));
    CHECK(staleness == 0.5); // of two pushes one was a step late
}

TEST_CASE("one job after another has its servers and workers over the same messenger", "[distributed][server]") {
    constexpr int jobs = 3, workers = 3;
    REQUIRE_NOTHROW(gd::thread_ranks(1 + workers).run([&](gd::thread_communicator& by) {
        for (int job = 0; job != jobs; ++job) {
            if (by.rank() == 0) {
                gd::server server(by);
                server.add("w", adding, std::vector<float>(4));
                server.run(by);
                on_ranks::require_equal(server.get<adding_type>("w").values()[0], 20.0f * workers, "the sum of a job");
                continue;
            }
            gd::worker worker(by);
            std::vector<float> w(4);
            worker.pull("w", w);
            for (int step = 0; step != 20; ++step) worker.push("w", std::vector<float>(4, 1));
            worker.stop();
        }
    }));
}

TEST_CASE("Geo-SGD with one worker is training alone", "[distributed][server][geo]") {
    gs::parameter alone{deep, numbers(elements, 1)};
    job(
        1, 1, {.mode = gd::server_mode::geo}, [](gd::server& server) { server.add("w", adding, numbers(elements, 1)); },
        [&](gd::worker& worker, int) {
            gd::geo_parameter weights{worker, "w", deep, 4};
            for (int step = 0; step != 40; ++step) {
                auto const gradient = numbers(elements, seed_of(0, step));
                weights.update(gradient);
                alone.update(gradient);
                on_ranks::require(std::equal(weights.values().begin(), weights.values().end(), alone.values().begin()),
                                  "differs from training alone");
            }
            worker.stop();
        });
}

TEST_CASE("Geo-SGD loses no delta: the server has the sum of all, and what was not sent stays",
          "[distributed][server][geo]") {
    REQUIRE_NOTHROW(gd::thread_ranks(5).run([](gd::thread_communicator& by) { loses_no_delta(by, 1); }));
}

namespace {

// A server by itself, whose messages the test writes: rank 0 of 3, with two workers.
struct table_of_messages {
    gd::server server{0, 3};
    std::uint64_t session = 77;

    table_of_messages() {
        add_both(server);
        server.handle(1, hello(1, gd::detail::wire_description(1, 3)));
    }
    gd::detail::wire_header header(int from, gd::detail::wire_kind kind, std::string_view name = {}) const {
        gd::detail::wire_header out;
        out.kind = kind;
        out.rank = static_cast<std::uint32_t>(from);
        out.session = session;
        if (!name.empty()) out.parameter = gs::stable_hash(name), out.element = gs::scalar::float32;
        return out;
    }
    static std::vector<std::byte> bytes(gd::detail::wire_header const& of, std::vector<std::uint64_t> const& keys = {},
                                        std::vector<float> const& values = {}) {
        gd::detail::wire_writer out(of, keys.size(), values.size());
        out.append(keys);
        out.append(values.data(), values.size() * sizeof(float));
        return out.take();
    }
    std::vector<std::byte> hello(int from, std::string const& text) const {
        return gd::detail::wire_text(header(from, gd::detail::wire_kind::hello), text);
    }
    std::vector<std::byte> push(std::uint64_t position, std::uint64_t previous, std::size_t count = elements) const {
        auto h = header(1, gd::detail::wire_kind::push, "deep");
        h.sequence = position;
        h.previous = previous;
        return bytes(h, {}, std::vector<float>(count, 1));
    }
    // The sentence that the server answers with.
    std::string refusal(int from, std::vector<std::byte> message) {
        auto const before = weights();
        auto const replies = server.handle(from, std::move(message));
        REQUIRE(weights() == before);
        REQUIRE(replies.size() == 1);
        CHECK(replies[0].to == from);
        auto const reply = gd::detail::wire_message::read(replies[0].bytes, 0);
        REQUIRE(reply.header.kind == gd::detail::wire_kind::refusal);
        return std::string(reply.text());
    }
    std::vector<float> weights() {
        auto const all = server.get<deep_type>("deep").values();
        auto const rows = server.get<wide_table>("wide").values();
        std::vector<float> out(all.begin(), all.end());
        out.insert(out.end(), rows.begin(), rows.end());
        return out;
    }
    gd::detail::wire_message pulled(std::vector<std::byte>& keep) {
        keep = server.handle(1, bytes(header(1, gd::detail::wire_kind::pull, "deep")))[0].bytes;
        return gd::detail::wire_message::read(keep, 0);
    }
};

} // namespace

TEST_CASE("messages that are no messages have no effect, and their sender is told", "[distributed][server][refuses]") {
    table_of_messages table;
    std::vector<std::byte> keep;
    REQUIRE(table.pulled(keep).header.elements == elements);
    auto const good = table.push(1, 0);
    for (std::size_t length = 0; length < good.size(); ++length)
        CHECK_THAT(table.refusal(1, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}),
                   ContainsSubstring("a message of rank 1 has " + std::to_string(length) + " bytes"));
    for (std::size_t at = 0; at != good.size(); ++at) {
        auto changed = good;
        changed[at] ^= std::byte(16);
        CHECK_THAT(table.refusal(1, changed), ContainsSubstring("a message of rank 1"));
    }
    // One whose elements are not checked is read as they are; all else is.
    {
        auto h = table.header(1, gd::detail::wire_kind::push, "deep");
        h.sequence = 1;
        h.flags = gd::detail::wire_flags::unchecked;
        auto const loose = table.bytes(h, {}, std::vector<float>(elements, 1));
        for (std::size_t at = 0; at != sizeof h; ++at) {
            auto changed = loose;
            changed[at] ^= std::byte(16);
            CHECK_THAT(table.refusal(1, changed), ContainsSubstring("a message of rank 1"));
        }
        CHECK(gd::detail::wire_message::read(loose, 1).elements<float>()[elements - 1] == 1);
    }
    // With a checksum that is right.
    auto const resealed = [&](std::size_t at, std::uint64_t value, std::size_t size) {
        auto changed = good;
        std::memcpy(changed.data() + at, &value, size);
        gd::detail::wire_writer::seal(changed);
        return table.refusal(1, changed);
    };
    CHECK_THAT(resealed(8, 9, 1), ContainsSubstring("is of version 9; expected 1"));
    CHECK_THAT(resealed(9, 200, 1), ContainsSubstring("is of the kind 200"));
    CHECK_THAT(resealed(9, 10, 1), ContainsSubstring("expected a kind that workers send"));
    CHECK_THAT(resealed(10, 7, 1), ContainsSubstring("has the element 7"));
    CHECK_THAT(resealed(24, 2, 4), ContainsSubstring("says that it is of rank 2"));
    CHECK_THAT(resealed(40, 1, 8), ContainsSubstring("is for the parameter with the hash 1;"));
    CHECK_THAT(resealed(64, 5, 8), ContainsSubstring("has the position 1; expected >= 5"));
    CHECK_THAT(resealed(72, ~std::uint64_t{0}, 8),
               ContainsSubstring("expected 18446744073709551615 keys and 37 elements"));
    CHECK_THAT(resealed(80, ~std::uint64_t{0}, 8), ContainsSubstring("18446744073709551615 elements"));
}

TEST_CASE("what does not fit a parameter is refused, with the rank and the value", "[distributed][server][refuses]") {
    using gd::detail::wire_kind;
    table_of_messages table;
    std::vector<std::byte> keep;
    CHECK_THAT(table.refusal(1, table.push(1, 0)),
               ContainsSubstring("rank 1: deep: is pushed before it was pulled; expected pull() first"));
    table.pulled(keep);
    CHECK_THAT(table.refusal(1, table.push(1, 0, elements - 1)),
               ContainsSubstring("rank 1: deep: is pushed with 36 elements; expected 37"));
    auto of = table.header(1, wire_kind::push, "deep");
    of.sequence = 1;
    of.element = gs::scalar::float64;
    CHECK_THAT(table.refusal(1, gd::detail::wire_writer(of, 0, 0).take()),
               ContainsSubstring("is pushed as double; expected float"));
    of.kind = wire_kind::pull;
    CHECK_THAT(table.refusal(1, gd::detail::wire_writer(of, 0, 0).take()),
               ContainsSubstring("is pulled as double; expected float"));
    CHECK_THAT(table.refusal(1, table.bytes(table.header(1, wire_kind::pull, "deep"), {3})),
               ContainsSubstring("has 1 keys"));
    CHECK_THAT(table.refusal(1, table.bytes(table.header(1, wire_kind::pull, "wide"), {3, 40})),
               ContainsSubstring("rank 1: wide: there is no row 40; expected below 40"));
    CHECK_THAT(table.refusal(1, table.bytes(table.header(1, wire_kind::pull, "bias"))),
               ContainsSubstring("for the parameter with the hash"));
    CHECK_THAT(
        table.refusal(2, table.hello(2, "gradstep 9.0.0, 1 server among 3 ranks")),
        ContainsSubstring("rank 2: is of \"gradstep 9.0.0, 1 server among 3 ranks\"; expected \"gradstep 0.1.0, "));
    CHECK_THAT(table.refusal(1, table.bytes(table.header(1, wire_kind::welcome))),
               ContainsSubstring("expected a kind that workers send"));
    CHECK(table.server.handle(0, table.push(1, 0)).empty()); // not from a worker: the error cannot be sent
    CHECK(table.server.handle(7, table.push(1, 0)).empty());
    auto const before = table.weights();
    ++table.session;
    CHECK(table.server.handle(1, table.push(1, 0)).empty()); // of another life of rank 1
    CHECK(table.weights() == before);
}

TEST_CASE("a server takes no messages of another job, and answers a worker of an earlier one",
          "[distributed][server][refuses]") {
    using gd::detail::wire_kind;
    gd::server server(0, 3, {.job = 2});
    add_both(server);
    auto const said = [&](wire_kind kind, std::uint32_t job, std::uint64_t session) {
        gd::detail::wire_header h;
        h.kind = kind;
        h.rank = 1;
        h.job = job;
        h.session = session;
        return server.handle(1, gd::detail::wire_text(h, gd::detail::wire_description(1, 3)));
    };
    auto const answer = [&](std::vector<gd::outgoing> const& all) {
        REQUIRE(all.size() == 1);
        return gd::detail::wire_message::read(all[0].bytes, 0);
    };
    CHECK(answer(said(wire_kind::hello, 2, 77)).header.kind == wire_kind::welcome);
    CHECK(said(wire_kind::hello, 3, 79).empty()); // the worker sends it again in that job
    CHECK(said(wire_kind::alive, 1, 77).empty());
    auto const refused = said(wire_kind::hello, 1, 76);
    CHECK(answer(refused).header.kind == wire_kind::refusal);
    CHECK(answer(refused).header.session == 76); // not for the session that this rank has here
    CHECK_THAT(std::string(answer(refused).text()),
               ContainsSubstring("rank 1: job: 1 has ended; expected 2, the job of this server"));
    // What another session on these ranks has to read goes to this rank again at the end.
    std::vector<std::vector<std::byte>> sent;
    for (auto const& kind : {wire_kind::refusal, wire_kind::begun}) {
        gd::detail::wire_header h;
        h.kind = kind;
        sent.push_back(gd::detail::wire_text(h, "of a server of the next job"));
        gd::server server_1(1, 3, {.num_servers = 2});
        CHECK(server_1.handle(0, sent.back()).empty());
        gd::detail::wire_header of_worker;
        of_worker.rank = 2;
        of_worker.session = 5;
        of_worker.kind = wire_kind::hello;
        server_1.handle(2, gd::detail::wire_text(of_worker, gd::detail::wire_description(2, 3)));
        of_worker.kind = wire_kind::stop;
        auto const last = server_1.handle(2, gd::detail::wire_text(of_worker, {}));
        REQUIRE(server_1.finished());
        bool const is_kept =
            std::ranges::any_of(last, [&](gd::outgoing const& one) { return one.to == 1 && one.bytes == sent.back(); });
        CHECK(is_kept == (kind == wire_kind::refusal));
    }
}

TEST_CASE("a name that no checkpoint can hold is refused when it is added to a server",
          "[distributed][server][refuses]") {
    gd::server server(0, 2, {.num_servers = 1});
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.5}, gs::serial_backend{});
    std::vector<float> const initial(3);
    auto const said = [&](std::string const& name) {
        std::size_t const before = server.size();
        std::string const out = on_ranks::refusal<gs::value_error>([&] { server.add(name, adam, initial); });
        CHECK(server.size() == before);
        return out;
    };
    server.add("w", adam, initial);
    CHECK_THAT(said("w/m"), ContainsSubstring("\"w/m\" has a tensor \"w/m\" in checkpoints, as another one has"));
    server.add("v/v", adam, initial);
    CHECK_THAT(said("v"), ContainsSubstring("\"v\" has a tensor \"v/v\" in checkpoints"));
    for (char const* const name : {"gradstep.server", "gradstep.server/workers"})
        CHECK_THAT(said(name), ContainsSubstring("does not begin with \"gradstep."));
    CHECK_THAT(said(std::string("w\0x", 3)), ContainsSubstring("has a byte 0"));
    CHECK_THAT(said("\xff"), ContainsSubstring("is not UTF-8"));
    CHECK_THAT(said("__metadata__"), ContainsSubstring("has another use"));
    gs::table rows{adam, 4, 2, gs::replay{8}};
    CHECK_THAT(on_ranks::refusal<gs::value_error>([&] { server.add("v", rows); }), ContainsSubstring("\"v/v\""));
    server.add("rows", rows);
    CHECK_THAT(said("rows/stamps"), ContainsSubstring("\"rows/stamps\""));
}

TEST_CASE("the memory of a message comes back when it has been taken", "[distributed][server]") {
    table_of_messages table;
    std::vector<std::byte> keep;
    table.pulled(keep);
    CHECK(table.server.spent().empty());
    auto message = table.push(1, 0);
    auto const* const at = message.data();
    table.server.handle(1, std::move(message));
    auto const spent = table.server.spent();
    REQUIRE(spent.size() == 1);
    CHECK(spent[0].data() == at);
    CHECK(table.server.spent().empty());
}

TEST_CASE("a push that comes again is not applied, and one whose predecessor is missing asks for it",
          "[distributed][server]") {
    using gd::detail::wire_kind;
    table_of_messages table;
    std::vector<std::byte> keep;
    table.pulled(keep);
    gs::parameter expected{deep, numbers(elements, 1)};
    std::vector<float> const gradient(elements, 1);
    auto const handled = [&](std::uint64_t position, std::uint64_t previous) {
        auto const replies = table.server.handle(1, table.push(position, previous));
        if (replies.empty()) return gd::detail::wire_header();
        REQUIRE(replies.size() == 1);
        return gd::detail::wire_message::read(replies[0].bytes, 0).header;
    };
    auto const same = [&] {
        return std::equal(expected.values().begin(), expected.values().end(), table.weights().begin());
    };
    for (int again = 0; again != 2; ++again) {
        auto const answer = handled(1, 0);
        if (again == 0) expected.update(gradient);
        CHECK((answer.kind == wire_kind::applied && answer.sequence == 1));
        CHECK(same());
    }
    auto const asked = handled(3, 2);
    CHECK((asked.kind == wire_kind::rewind && asked.sequence == 1));
    CHECK(handled(4, 3).kind == wire_kind::none); // it was asked
    CHECK(same());
    CHECK(handled(2, 1).sequence == 2);
    CHECK(handled(7, 2).sequence == 7); // 3 to 6 were for another server
    expected.update(gradient);
    expected.update(gradient);
    CHECK(same());
}

TEST_CASE("a worker refuses what does not fit before it sends anything", "[distributed][worker][refuses]") {
    job(1, 1, {}, both, [](gd::worker& worker, int) {
        using on_ranks::refusal, on_ranks::require_contains;
        std::vector<float> dense(elements), few(3);
        std::vector<double> of_double(elements);
        std::vector<std::int64_t> keys{1}, negative{-1};
        auto const says = [](std::string const& sentence, std::string_view part) { require_contains(sentence, part); };
        says(refusal<gs::value_error>([&] { worker.pull("bias", dense); }),
             "there is no parameter bias; expected one of deep, wide");
        says(refusal<gs::value_error>([&] { worker.pull("deep", of_double); }),
             "rank 1 has double for deep; expected float");
        says(refusal<gs::size_error>([&] { worker.pull("deep", few); }), "rank 1 has 3 elements; expected 37");
        says(refusal<gs::value_error>([&] { worker.pull("wide", dense); }), "wide is a table; expected keys");
        says(refusal<gs::value_error>([&] { worker.pull("deep", keys, few); }), "deep is no table; expected no keys");
        says(refusal<gs::value_error>([&] { worker.pull("wide", negative, few); }), "there is no row -1");
        says(refusal<gs::sequence_error>([&] { worker.push("deep", dense); }),
             "rank 1 has not pulled deep; expected pull() first");
        says(refusal<gs::buffer_error>(
                 [&] { worker.pull("deep", std::span<float>(static_cast<float*>(nullptr), elements)); }),
             "is null");
        says(refusal<gs::value_error>([&] { worker.go_on_from(1); }),
             "position: 1 is out of range; expected at most 0");
        worker.pull("deep", dense);
        says(refusal<gs::size_error>([&] { worker.push("deep", few); }), "rank 1 has 3 elements; expected 37");
        worker.push("deep", dense);
        says(refusal<gs::sequence_error>([&] { worker.go_on_from(0); }), "pushed already");
        worker.stop();
        worker.stop();
        says(refusal<gs::sequence_error>([&] { worker.push("deep", dense); }), "rank 1 has called stop");
        says(refusal<gs::sequence_error>([&] { worker.barrier(); }), "rank 1 has called stop");
    });
    // What only the server knows: the pull throws it, and the worker goes on; after a push that was
    // refused it cannot.
    auto const run = [](auto const& work) {
        job(
            1, 1, {}, both, work, [](gd::server&) {}, 1s);
    };
    CHECK_THROWS_WITH(
        run([](gd::worker& worker, int) {
            std::vector<std::int64_t> const beyond{40}, first{0};
            std::vector<float> rows(width);
            on_ranks::require_contains(
                on_ranks::refusal<gs::value_error>([&] { worker.pull("wide", beyond, rows); }),
                "server 0 refuses what rank 1 has sent: rank 1: wide: there is no row 40; expected below 40");
            worker.pull("wide", first, rows);
            on_ranks::require_equal(rows[0], 0.25f, "a row after a refusal");
            worker.push("wide", beyond, rows);
            on_ranks::require_contains(on_ranks::refusal<gs::value_error>([&] { worker.barrier(); }),
                                       "there is no row 40");
            on_ranks::require_contains(on_ranks::refusal<gs::value_error>([&] { worker.pull("wide", first, rows); }),
                                       "there is no row 40");
            throw std::logic_error("the end of this worker");
        }),
        "the end of this worker");
}

TEST_CASE("a worker that is silent is named by the server, to all others too", "[distributed][server][failure]") {
    for (auto const mode : {gd::server_mode::synchronous, gd::server_mode::asynchronous}) {
        std::string told;
        CHECK_THROWS_WITH(job(
                              1, 2, {.mode = mode}, both,
                              [&](gd::worker& worker, int number) {
                                  if (number == 1) return; // without stop
                                  std::vector<float> w(elements);
                                  worker.pull("deep", w);
                                  worker.push("deep", w);
                                  told = on_ranks::refusal<gd::rank_error>([&] { worker.barrier(); });
                              },
                              [](gd::server&) {}, 1s),
                          ContainsSubstring("rank 0: the server: rank 2 has not taken part within 1000 ms"));
        CHECK_THAT(told, ContainsSubstring(
                             "server 0 has ended: rank 0: the server: rank 2 has not taken part within 1000 ms"));
    }
}

namespace {

// A messenger of a server that is busy: its own timeout is short, and some of its words take
// longer.
class busy {
public:
    explicit busy(gd::thread_communicator& of) : of_(of) {}
    int rank() const { return of_.rank(); }
    int size() const { return of_.size(); }
    std::chrono::milliseconds timeout() const { return 500ms; }
    bool allows_threads() const { return true; }
    void send(int to, std::vector<std::byte> bytes) {
        auto const message = gd::detail::wire_message::read(bytes, 0);
        if (message.header.kind == gd::detail::wire_kind::weights) std::this_thread::sleep_for(700ms);
        of_.send(to, std::move(bytes));
    }
    std::optional<gd::message> receive(std::chrono::milliseconds wait) { return of_.receive(wait); }

private:
    gd::thread_communicator& of_;
};

} // namespace

TEST_CASE("a server that is busy for longer than the timeout takes nobody for silent", "[distributed][server]") {
    REQUIRE_NOTHROW(gd::thread_ranks(3, 300s).run([&](gd::thread_communicator& by) {
        if (by.rank() == 0) {
            busy ranks(by);
            gd::server server(by);
            add_both(server);
            server.run(ranks);
            return;
        }
        gd::worker worker(by);
        std::vector<float> w(elements);
        worker.pull("deep", w);
        worker.stop();
    }));
}

TEST_CASE("of two threads of a worker one is at a barrier, and the other is told so",
          "[distributed][server][refuses]") {
    std::atomic<int> refused = 0;
    REQUIRE_NOTHROW(job(1, 2, {}, both, [&](gd::worker& worker, int number) {
        if (number == 1) {
            while (refused == 0) std::this_thread::sleep_for(1ms);
            worker.barrier();
            worker.stop();
            return;
        }
        auto const meet = [&] {
            try {
                worker.barrier();
            } catch (gs::sequence_error const& wrong) {
                if (std::string_view(wrong.what()).find("barrier: another thread of rank 1 is in this call") !=
                    std::string_view::npos)
                    ++refused;
            }
        };
        std::thread other(meet);
        meet();
        other.join();
        worker.stop();
    }));
    CHECK(refused == 1);
}

TEST_CASE("of two threads of a worker one is at a stop, and the other is told so", "[distributed][server][refuses]") {
    std::atomic<int> refused = 0;
    REQUIRE_NOTHROW(job(1, 2, {}, both, [&](gd::worker& worker, int number) {
        auto const stop = [&] {
            try {
                worker.stop();
            } catch (gs::sequence_error const& wrong) {
                if (std::string_view(wrong.what()).find("stop: another thread of rank 1 is in this call") !=
                    std::string_view::npos)
                    ++refused;
            }
        };
        if (number == 1) {
            while (refused == 0) std::this_thread::sleep_for(1ms);
            return worker.stop();
        }
        std::thread other(stop);
        stop();
        other.join();
    }));
    CHECK(refused == 1);
}

TEST_CASE("a parameter with stochastic rounding, whose bits go by the place, is on one server",
          "[distributed][server]") {
    auto const rounded = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::add_delta{}, gs::none{}, gs::constant{1});
    std::vector<gs::bfloat16> const initial(many_elements);
    std::size_t servers = 0;
    for (int rank = 0; rank != 2; ++rank) {
        gd::server server(rank, 3, {.num_servers = 2, .split_from = 1});
        server.add("w", rounded, initial);
        servers += server.size();
        if (server.size() != 0) CHECK(server.get<std::remove_const_t<decltype(rounded)>>("w").size() == many_elements);
    }
    CHECK(servers == 1);
}

#if !defined(UNDER_ADDRESS_SANITIZER) && !defined(UNDER_THREAD_SANITIZER) // which end the program at such an allocation
TEST_CASE("a pull for whose answer there is no memory is refused, and others are served on",
          "[distributed][server][refuses]") {
    gd::server server(0, 3);
    server.add("wide", gs::table{adding, 1, 1 << 20});
    gd::detail::wire_header header;
    header.kind = gd::detail::wire_kind::hello;
    header.session = 7;
    header.rank = 1;
    server.handle(1, gd::detail::wire_text(header, gd::detail::wire_description(1, 3)));
    header.kind = gd::detail::wire_kind::pull;
    header.parameter = gs::stable_hash(std::string_view("wide"));
    header.element = gs::scalar::float32;
    auto const answer = [&](std::size_t count) {
        std::vector<std::uint64_t> const keys(count);
        gd::detail::wire_writer pull(header, count, 0);
        pull.append(keys);
        auto replies = server.handle(1, pull.take());
        REQUIRE(replies.size() == 1);
        auto const reply = gd::detail::wire_message::read(replies[0].bytes, 0);
        return reply.header.kind == gd::detail::wire_kind::refusal ? std::string(reply.text()) : std::string();
    };
    CHECK_THAT(answer(std::size_t{1} << 26), // 2^48 bytes, beyond all that there are addresses for
               ContainsSubstring("wide: there is no memory for an answer with 67108864 rows"));
    CHECK(answer(1).empty());
}
#endif

TEST_CASE("a server that is silent is named by its workers, and workers that wait for each other by the server",
          "[distributed][server][failure]") {
    CHECK_THROWS_WITH(gd::thread_ranks(3, 100ms).run([&](gd::thread_communicator& by) {
        if (by.rank() == 2) gd::worker(by, {.num_servers = 2}).stop();
        if (by.rank() == 0) {
            gd::server server(by, {.num_servers = 2});
            server.handle(2, by.receive(10s)->bytes); // no answer
        }
    }),
                      ContainsSubstring("rank 2: worker: rank 0, rank 1 have not taken part within 200 ms"));
    CHECK_THROWS_WITH(job(
                          1, 2, {.mode = gd::server_mode::synchronous},
                          [](gd::server& server) {
                              server.add("a", deep, numbers(4, 1));
                              server.add("b", deep, numbers(4, 1));
                          },
                          [](gd::worker& worker, int number) {
                              std::vector<float> w(4);
                              worker.pull("a", w);
                              worker.pull("b", w);
                              char const* const own = number == 0 ? "a" : "b";
                              worker.push(own, w);
                              on_ranks::refusal<gd::rank_error>([&] { worker.pull(own, w); });
                          },
                          [](gd::server&) {}, 1s),
                      ContainsSubstring("the workers wait for each other: rank 1, rank 2 have not taken part"));
}

TEST_CASE("ranks that are not alike are told so when they begin", "[distributed][server][refuses]") {
    gd::server_options const alike{.num_servers = 2, .split_from = 1};
    auto const run = [alike](int workers_servers, auto const& policies_of, gd::server_options of_second) {
        gd::thread_ranks(4, 1s).run([&](gd::thread_communicator& by) {
            if (by.rank() >= 2) {
                gd::worker worker(by, {.num_servers = workers_servers});
                worker.stop();
                return;
            }
            gd::server server(by, by.rank() == 0 ? alike : of_second);
            policies_of(server, by.rank());
            try {
                server.run(by);
            } catch (gd::rank_error const&) {
            } // its workers have ended
        });
    };
    CHECK_THROWS_WITH(
        run(
            1, [](gd::server& server, int) { server.add("w", deep, numbers(9000, 1)); }, alike),
        ContainsSubstring(
            ", 1 server among 4 ranks\"; expected \"gradstep 0.1.0, 2 servers among 4 ranks\" as this server"));
    CHECK_THROWS_WITH(
        run(
            2,
            [](gd::server& server, int rank) {
                server.add("w",
                           gs::make_updater<float>(gs::add_delta{}, gs::none{}, gs::constant{rank == 0 ? 0.5 : 0.25}),
                           numbers(9000, 1));
            },
            alike),
        ContainsSubstring("servers 0 and 1: w: policies") && ContainsSubstring("rate = 0.25"));
    CHECK_THROWS_WITH(
        run(
            2, [](gd::server& server, int rank) { server.add("w", adding, numbers(rank == 0 ? 9000 : 9001, 1)); },
            alike),
        ContainsSubstring("servers 0 and 1: w: sizes 9000 and 9001"));
    CHECK_THROWS_WITH(run(
                          2,
                          [](gd::server& server, int rank) {
                              server.add("w", gs::table{adding, 50, 2, gs::touch_only{}, {.initial = 0.5 * rank}});
                          },
                          alike),
                      ContainsSubstring("servers 0 and 1: w: policies") && ContainsSubstring("initial = 0.5"));
    // What a server has not: half of a table, half of the elements.
    CHECK_THROWS_WITH(
        run(
            2,
            [](gd::server& server, int rank) {
                if (rank == 0) server.add("rows", gs::table{adding, 50, 2});
            },
            alike),
        ContainsSubstring(
            "server 1: has no part of rows, which server 0 has; expected the same parameters on every server"));
    CHECK_THROWS_WITH(
        run(
            2,
            [](gd::server& server, int rank) {
                if (rank == 1) server.add("w", adding, numbers(9000, 1));
            },
            alike),
        ContainsSubstring("server 0: has no part of w, which server 1 has, and of its 9000 elements those "
                          "from 0 on are not on one server each"));
    auto const same = [](gd::server& server, int) { server.add("w", adding, numbers(9000, 1)); };
    auto other = alike;
    other.split_from = 10000;
    CHECK_THROWS_WITH(run(2, same, other),
                      ContainsSubstring("servers 0 and 1: server_options.split_from: 1 and 10000"));
    other = alike;
    other.mode = gd::server_mode::synchronous;
    CHECK_THROWS_WITH(run(2, same, other),
                      ContainsSubstring("servers 0 and 1: server_options.mode: asynchronous and synchronous"));
    CHECK_THROWS_WITH(gd::server(1, 2), ContainsSubstring("rank 1 is a worker"));
    CHECK_THROWS_WITH(gd::server(0, 2, {.num_servers = 2}),
                      ContainsSubstring("server_options.num_servers: 2 is out of range; expected [1, 2)"));
    gd::server geo(0, 2, {.mode = gd::server_mode::geo});
    CHECK_THROWS_WITH(geo.add("w", deep, numbers(4, 1)), ContainsSubstring("expected the rule add_delta"));
    CHECK_THROWS_WITH(geo.add("w", adding, numbers(4, 1), {.delay_compensation = 1}),
                      ContainsSubstring("delay_compensation: 1 is out of range; expected 0"));
    CHECK_THROWS_WITH(geo.add("gradstep.w", adding, numbers(4, 1)), ContainsSubstring("\"gradstep.w\""));
    gd::server synchronous(0, 2, {.mode = gd::server_mode::synchronous});
    for (auto const way : {gs::duplicates::mean, gs::duplicates::unique, gs::duplicates::assume_unique})
        CHECK_THROWS_WITH(synchronous.add("rows", gs::table{adding, 4, 1, gs::touch_only{}, {.duplicates = way}}),
                          ContainsSubstring("rows: the mode is synchronous") &&
                              ContainsSubstring("expected a table whose duplicates are sum"));
    geo.add("w", adding, numbers(4, 1));
    CHECK_THROWS_WITH(geo.add("w", adding, numbers(4, 1)), ContainsSubstring("there is a parameter w already"));
}

namespace {

// A server that does not use `run`: it gives no sign of life. lost(kind) says whether a message
// does not come, and may take its time.
template <class Lost> void serve_by_hand(gd::thread_communicator& by, gd::server& server, Lost const& lost) {
    auto const send = [&](std::vector<gd::outgoing> all) {
        for (auto& each : all) by.send(each.to, std::move(each.bytes));
    };
    send(server.begin());
    for (gd::detail::deadline const until(60s); !server.finished();) {
        on_ranks::require(!until.has_passed(), "a worker has died");
        auto got = by.receive(10ms);
        if (!got || lost(gd::detail::wire_message::read(got->bytes, got->from).header.kind)) continue;
        send(server.handle(got->from, std::move(got->bytes)));
    }
}

// A messenger that fails once.
struct failing_messenger {
    gd::thread_communicator& of;
    bool fails = false;

    int rank() const { return of.rank(); }
    int size() const { return of.size(); }
    std::chrono::milliseconds timeout() const { return of.timeout(); }
    bool allows_threads() const { return true; }
    void send(int to, std::vector<std::byte> bytes) {
        if (std::exchange(fails, false)) throw std::bad_alloc();
        of.send(to, std::move(bytes));
    }
    std::optional<gd::message> receive(std::chrono::milliseconds wait) { return of.receive(wait); }
};

} // namespace

TEST_CASE("a stop that one server has not heard is an error in time, and may be called again",
          "[distributed][server]") {
    bool refused = false, stopped = false;
    gd::thread_ranks(3, 500ms).run([&](gd::thread_communicator& by) {
        if (by.rank() == 2) {
            gd::worker worker(by, {.num_servers = 2});
            std::vector<std::int64_t> w(1);
            try {
                worker.stop();
            } catch (gd::rank_error const&) {
                refused = true;
            }
            on_ranks::refusal<gs::sequence_error>([&] { worker.pull("w", w); });
            worker.stop(); // of the other server, which has ended, nothing is asked
            stopped = worker.has_stopped();
            return;
        }
        gd::server server(by, {.num_servers = 2});
        server.add("w", counter, std::vector<std::int64_t>(1));
        if (by.rank() == 0) return server.run(by);
        bool is_lost = false;
        serve_by_hand(by, server, [&](gd::detail::wire_kind kind) {
            return kind == gd::detail::wire_kind::stop && !std::exchange(is_lost, true);
        });
    });
    CHECK(refused);
    CHECK(stopped);
}

TEST_CASE("a barrier that has thrown is waited for again by the same call", "[distributed][server][failure]") {
    std::atomic<int> refused = 0, passed = 0;
    gd::thread_ranks(3, 300ms).run([&](gd::thread_communicator& by) {
        if (by.rank() == 0) {
            gd::server server(by);
            server.add("w", counter, std::vector<std::int64_t>(1));
            int barriers = 0;
            return serve_by_hand(by, server, [&](gd::detail::wire_kind kind) {
                if (kind == gd::detail::wire_kind::barrier && ++barriers == 2) // both have begun, and wait
                    std::this_thread::sleep_for(900ms);                        // as by a checkpoint on a slow disk
                return false;
            });
        }
        gd::worker worker(by);
        auto const until_it_returns = [&](auto const& call) {
            for (gd::detail::deadline const until(60s);;) {
                try {
                    return call();
                } catch (gd::rank_error const&) {
                    ++refused;
                    on_ranks::require(!until.has_passed(), "the server has died");
                }
            }
        };
        for (int barrier = 1; barrier != 4; ++barrier) {
            until_it_returns([&] { worker.barrier(); });
            on_ranks::require_equal(worker.position(), static_cast<std::uint64_t>(barrier), "one position a barrier");
            // The other rank does not pass a late one. It would be at the next barrier then.
            int const before = passed++;
            on_ranks::require_equal(before / 2, barrier - 1, "both are at one barrier");
        }
        until_it_returns([&] { worker.stop(); });
    });
    CHECK(refused > 0);
}

TEST_CASE("a push that the transport could not send is not sent twice: the worker cannot continue",
          "[distributed][failure]") {
    std::int64_t counted = 0;
    std::string sentence;
    gd::thread_ranks(2).run([&](gd::thread_communicator& by) {
        std::vector<std::int64_t> w(1), one{1};
        if (by.rank() == 1) {
            failing_messenger ranks{by};
            {
                gd::worker worker(ranks);
                worker.pull("w", w);
                worker.push("w", one);
                ranks.fails = true;
                on_ranks::refusal<std::bad_alloc>([&] { worker.push("w", one); });
                sentence = on_ranks::refusal<gd::rank_error>([&] { worker.push("w", one); });
                on_ranks::refusal<gd::rank_error>([&] { worker.stop(); });
            }
            gd::worker anew(ranks);
            anew.pull("w", w);
            while (anew.position() != 3) anew.push("w", one);
            return anew.stop();
        }
        gd::server server(by);
        server.add("w", counter, std::vector<std::int64_t>(1));
        server.run(by);
        counted = server.get<counter_type>("w").values()[0];
    });
    CHECK_THAT(sentence, ContainsSubstring("rank 1: could not send all messages of the call: ") &&
                             ContainsSubstring("bad_alloc"));
    CHECK(counted == 3);
}
