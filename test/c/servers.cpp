// Servers and workers of the C library and of C++ do the same over the same transports; and what the
// C library refuses.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/geo.hpp>
#include <gradstep/keyed_table.hpp>

#include "c/handles.hpp"
#include "c/serving.hpp"
#include "distributed/serving.hpp"
#include "support/folder.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;
using c_serving::must, c_serving::one_thread;

namespace {

constexpr std::size_t elements = 10'000, width = 3;
constexpr std::int64_t num_rows = 40;
std::string const schedule = R"("schedule": {"name": "inverse_time", "rate": 0.5, "decay": 0.1, "steps": 1})";

// The text of the servers that `add` makes of types. Dense parameters have shards.
std::string text_of(std::string const& mode, int num_servers) {
    bool const compensates = mode == "asynchronous";
    return R"({"mode": ")" + mode + R"(", "num_servers": )" + std::to_string(num_servers) +
           R"(, "split_from": 8, "tensors": {"deep": {"rule": {"name": "adagrad"}, )" + schedule +
           R"(, "parameter": {"size": 10000, "initial": 0.5, "delay_compensation": )" + (compensates ? "0.5" : "0") +
           R"(}}, "wide": {"rule": {"name": "ftrl", "l1": 0.01, "l2": 0.1},
                "schedule": {"name": "constant", "rate": 0.1}, "table": {"rows": 40, "width": 3, "initial": 0.25}},
              "keyed": {"rule": {"name": "adagrad"}, )" +
           schedule + R"(, "keyed_table": {"width": 3, "admit_after": 2,
                "initial": {"name": "normal", "mean": 0, "deviation": 1, "seed": 7}}}}})";
}
gd::server_options options_of(gd::server_mode mode, int num_servers) {
    return {.mode = mode, .num_servers = num_servers, .split_from = 8};
}
void add(gd::server& server, bool compensates) {
    server.add("deep", serving::deep, std::vector<float>(elements, 0.5f),
               {.delay_compensation = compensates ? 0.5 : 0});
    server.add("wide", gs::table{serving::wide, num_rows, width, gs::touch_only{}, {.initial = 0.25}});
    server.add(
        "keyed",
        gs::keyed_table{serving::deep, width, gs::touch_only{}, {.initial = gs::normal{0, 1, 7}, .admit_after = 2}});
}

// Some steps of a worker, and what it reads. With several workers each step has a barrier.
template <class Worker> std::vector<float> train(Worker& worker, int rank) {
    std::vector<float> seen, dense(elements), rows(5 * width);
    for (std::uint64_t step = 0; step != 12; ++step) {
        auto const keys = serving::ids(5, step * 10 + static_cast<std::uint64_t>(rank), num_rows);
        worker.pull("deep", dense);
        seen.insert(seen.end(), dense.begin(), dense.end());
        worker.push("deep", dense);
        for (char const* const name : {"wide", "keyed"}) {
            worker.pull(name, keys, rows);
            seen.insert(seen.end(), rows.begin(), rows.end());
            worker.push(name, keys, rows);
        }
        worker.barrier();
    }
    worker.stop();
    return seen;
}

struct outcome {
    std::vector<std::vector<float>> seen; // by each worker
    std::vector<std::string> files;
    friend bool operator==(outcome const&, outcome const&) = default;
};
outcome job(gd::server_mode mode, char const* name, int workers, bool c_servers, bool c_workers) {
    constexpr int servers = 2;
    folder const in;
    outcome out;
    out.seen.resize(static_cast<std::size_t>(workers));
    gd::thread_ranks(servers + workers).run([&](gd::thread_communicator& by) {
        auto const file = in / std::to_string(by.rank());
        if (by.rank() >= servers) {
            auto& seen = out.seen[static_cast<std::size_t>(by.rank() - servers)];
            if (c_workers) {
                c_serving::worker worker(c_serving::transport_of(by), servers);
                seen = train(worker, by.rank());
            } else {
                gd::worker worker(by, {.num_servers = servers});
                seen = train(worker, by.rank());
            }
        } else if (c_servers) {
            c_serving::server server(text_of(name, servers), by.rank(), by.size());
            server.run(by);
            server.save(file);
        } else {
            gd::server server(by, options_of(mode, servers));
            add(server, mode == gd::server_mode::asynchronous);
            server.run(by);
            server.save(file);
        }
        if (by.rank() < servers) { // a server of types can read it
            gd::server server(by, options_of(mode, servers));
            add(server, mode == gd::server_mode::asynchronous);
            server.load(file);
            server.save(file);
        }
    });
    for (int rank = 0; rank != servers; ++rank) out.files.push_back(bytes_of(in / std::to_string(rank)));
    return out;
}

std::string const one_table =
    R"({"tensors": {"w": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1},
    "keyed_table": {"width": 1}}, "v": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1},
    "parameter": {"size": 4}}}})";

std::vector<std::uint64_t> keys_of(gradstep_table* of) {
    std::vector<std::uint64_t> out(100);
    std::uint64_t count = 0;
    must([&](gradstep_error* e) { return gradstep_table_keys(of, 0, out.data(), out.size(), &count, e); });
    out.resize(count);
    std::sort(out.begin(), out.end());
    return out;
}

} // namespace

TEST_CASE("servers and workers of C have the numbers and the files of those of C++", "[c][bits_of_cpp]") {
    struct {
        gd::server_mode mode;
        char const* name;
        int workers;
    } const jobs[] = {{gd::server_mode::synchronous, "synchronous", 2},
                      {gd::server_mode::asynchronous, "asynchronous", 1}};
    for (auto const& one : jobs) {
        INFO(one.name);
        auto const of_cpp = job(one.mode, one.name, one.workers, false, false);
        CHECK(job(one.mode, one.name, one.workers, true, true) == of_cpp);
        CHECK(job(one.mode, one.name, one.workers, true, false) == of_cpp); // the messages are the same
        CHECK(job(one.mode, one.name, one.workers, false, true) == of_cpp);
    }
}

TEST_CASE("a parameter of C exchanges its changes as gs::distributed::geo_parameter does", "[c][bits_of_cpp]") {
    std::string const text = R"({"mode": "geo", "tensors": {"w": {"rule": {"name": "add_delta"},
        "schedule": {"name": "constant", "rate": 1}, "parameter": {"size": 6, "initial": 0.5}}}})";
    auto const local = gs::make_updater<float>(gs::momentum{}, gs::none{}, gs::constant{0.125});
    std::string const of_local = R"({"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.125}})";
    auto const trained = [&](bool of_c) {
        std::vector<float> out;
        gd::thread_ranks(2).run([&](gd::thread_communicator& by) {
            if (by.rank() == 0) return c_serving::server(text, 0, 2).run(by);
            auto const gradient = [](int step) { return serving::numbers(6, static_cast<std::uint64_t>(step)); };
            if (of_c) {
                c_serving::worker worker(c_serving::transport_of(by), 1);
                gradstep_parameter* w = nullptr;
                gradstep_geo* geo = nullptr;
                must([&](gradstep_error* e) {
                    return gradstep_parameter_create(of_local.data(), of_local.size(), GRADSTEP_FLOAT32, nullptr, 1, 6,
                                                     &w, e);
                });
                c_parameter const released_at_end(w);
                must([&](gradstep_error* e) { return gradstep_geo_create(worker, "w", w, &geo, e); });
                for (int step = 1; step != 11; ++step) {
                    auto const g = gradient(step);
                    must([&](gradstep_error* e) {
                        return gradstep_parameter_update(w, g.data(), g.size(), nullptr, e);
                    });
                    if (step % 3 == 0) must([&](gradstep_error* e) { return gradstep_geo_exchange(geo, e); });
                }
                gradstep_geo_release(geo);
                out.resize(6);
                worker.pull("w", out);
                worker.stop();
            } else {
                gd::worker worker(by, {});
                gd::geo_parameter weights{worker, "w", local, 3};
                for (int step = 1; step != 11; ++step) weights.update(gradient(step));
                out.resize(6);
                worker.pull("w", out);
                worker.stop();
            }
        });
        return out;
    };
    auto const of_types = trained(false);
    CHECK(of_types[0] != 0.5f);
    CHECK(trained(true) == of_types);
}

TEST_CASE("a server of C answers messages by hand, and shows its tables and parameters", "[c]") {
    c_serving::server const server(one_table, 0, 2);
    gradstep_parameter* v = nullptr;
    std::uint64_t first = 77;
    ok([&](gradstep_error* e) { return gradstep_server_parameter(server, "v", &v, &first, e); });
    CHECK(first == 0);
    std::vector<float> const initial{1, 2, 3, 4};
    ok([&](gradstep_error* e) { return gradstep_parameter_set_values(v, initial.data(), 4, e); });

    one_thread by(server);
    c_serving::worker const worker(by.transport(), 1);
    CHECK(refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { // a push before the first pull
              return gradstep_worker_push(worker, "v", GRADSTEP_FLOAT32, initial.data(), 4, e);
          }) == "push: rank 1 has not pulled v; expected pull() first");
    std::vector<float> out(4), rows(2);
    worker.pull("v", out);
    CHECK(out == initial);
    worker.push("v", {0.5f, 0, 0, 0});
    worker.pull("v", out);
    CHECK(out == std::vector<float>{0.5f, 2, 3, 4});
    CHECK(values<float>(v) == out); // the same memory

    gradstep_table* const w = server.table("w");
    CHECK(server.table("w") == w);
    worker.pull("w", {5, 7}, rows);
    worker.push("w", {5, 7}, {1, 2});
    worker.barrier();
    CHECK(keys_of(w) == std::vector<std::uint64_t>{5, 7});
    std::uint64_t count = 0;
    ok([&](gradstep_error* e) { return gradstep_worker_size(worker, "v", &count, e); });
    CHECK(count == 4);
    auto const info = server.info();
    CHECK((info.finished == 0 && info.tensors == 2 && info.pushes == 2 && info.staleness == 0));
    auto const facts = worker.info();
    CHECK((facts.stopped == 0 && facts.workers == 1 && facts.position == 3 && facts.applied == 3));
    worker.stop();
    CHECK(server.info().finished == 1);
    CHECK(worker.info().stopped == 1);
    ok([&](gradstep_error* e) { return gradstep_server_reopen(server, e); });
    CHECK(server.info().finished == 0);

    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_server_parameter(server, "w", &v, nullptr, e);
          }) == "name: w is a table; expected a parameter");
    gradstep_table* table = nullptr;
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_server_table(server, "v", &table, e);
          }) == "name: v is a parameter; expected a table");
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_server_table(server, "x", &table, e);
          }) == "name: \"x\" is unknown; expected the name of a tensor of the configuration");
}

TEST_CASE("a server's own parameters and tables take no steps of the host, and keep their clock and rows", "[c]") {
    c_serving::server const server(one_table, 0, 2);
    gradstep_table* table = server.table("w");
    gradstep_parameter* v = nullptr;
    ok([&](gradstep_error* e) { return gradstep_server_parameter(server, "v", &v, nullptr, e); });
    std::vector<float> const g(4, 1.0f);
    float const* const each[] = {g.data()};
    void const* const gradients[] = {g.data()};
    std::uint64_t const counts[] = {4}, keys[] = {1, 2};
    std::uint8_t const mask[4] = {};
    std::uint16_t copy[4] = {};
    gradstep_clock at = GRADSTEP_CLOCK_INIT;
    at.step = 9;
    auto const refuses = [](char const* what, auto const& call) {
        CHECK(refused(GRADSTEP_BAD_VALUE, call) ==
              what + std::string(": belongs to a server, which steps it; expected a ") + what + " of your own");
    };
    auto const of_v = [&](auto const& call) { refuses("parameter", call); };
    of_v([&](gradstep_error* e) { return gradstep_parameter_update(v, each[0], 4, nullptr, e); });
    of_v([&](gradstep_error* e) { return gradstep_parameters_update(&v, gradients, counts, 1, nullptr, e); });
    of_v([&](gradstep_error* e) { return gradstep_parameters_ascend(&v, gradients, counts, 1, nullptr, nullptr, e); });
    of_v([&](gradstep_error* e) { return gradstep_parameter_append(v, each[0], 1, e); });
    of_v([&](gradstep_error* e) { return gradstep_parameter_keep(v, mask, 4, e); });
    of_v([&](gradstep_error* e) { return gradstep_parameter_seek(v, &at, e); });
    of_v([&](gradstep_error* e) { return gradstep_parameter_set_bfloat16_copy(v, copy, 4, e); });
    auto const of_w = [&](auto const& call) { refuses("table", call); };
    of_w([&](gradstep_error* e) {
        return gradstep_table_update(table, keys, GRADSTEP_UINT64, 2, each[0], 2, nullptr, e);
    });
    of_w([&](gradstep_error* e) { return gradstep_table_seek(table, &at, e); });
    gradstep_clock now = GRADSTEP_CLOCK_INIT;
    ok([&](gradstep_error* e) { return gradstep_parameter_clock(v, &now, e); });
    CHECK(now.step == 0);
}

TEST_CASE("a handle of a server's table ends with the server", "[c]") {
    gradstep_table* table = nullptr;
    {
        c_serving::server const server(one_table, 0, 2);
        table = server.table("w");
    }
    std::uint64_t bytes = 0;
    refused(GRADSTEP_BAD_HANDLE, [&](gradstep_error* e) { return gradstep_table_state_bytes(table, &bytes, e); });
}

TEST_CASE("the parts of a parameter on two servers of C begin where the parameter is split", "[c]") {
    std::string const text = text_of("asynchronous", 2);
    std::vector<std::uint64_t> begins;
    for (int const rank : {0, 1}) {
        c_serving::server const server(text, rank, 3);
        gradstep_parameter* part = nullptr;
        begins.emplace_back();
        ok([&](gradstep_error* e) { return gradstep_server_parameter(server, "deep", &part, &begins.back(), e); });
        CHECK(values<float>(part).size() == (rank == 0 ? 8192 : 1808));
    }
    CHECK(begins == std::vector<std::uint64_t>{0, 8192});
}

TEST_CASE("a parameter tells the type that it was made of", "[c]") {
    std::string const add = R"({"rule": {"name": "add_delta"}, "schedule": {"name": "constant", "rate": 1})";
    struct {
        char const* name;
        std::int32_t dtype;
    } const types[] = {{"uint32", GRADSTEP_UINT32}, {"int64", GRADSTEP_INT64}, {"bfloat16", GRADSTEP_BFLOAT16}};
    for (auto const& type : types) {
        c_serving::server const server(
            R"({"tensors": {"w": )" + add + R"(, "type": ")" + type.name + R"(", "parameter": {"size": 4}}}})", 0, 2);
        gradstep_parameter *own = nullptr, *served = nullptr;
        ok([&](gradstep_error* e) { return gradstep_server_parameter(server, "w", &served, nullptr, e); });
        std::string const text = add + "}";
        ok([&](gradstep_error* e) {
            return gradstep_parameter_create(text.data(), text.size(), type.dtype, nullptr, 1, 4, &own, e);
        });
        c_parameter const released_at_end(own);
        for (auto* const each : {own, served}) {
            std::int32_t dtype = -1;
            ok([&](gradstep_error* e) { return gradstep_parameter_dtype(each, &dtype, e); });
            CHECK(dtype == type.dtype);
        }
    }
}

TEST_CASE("tasks of a server of C run between messages, and can end the run", "[c]") {
    struct watch {
        std::uint64_t calls = 0, evicted = 0, fail_at = 100;
        std::string refusal = {}, loads = {}, reason = {};
    } seen;
    auto const task = [](void* host, gradstep_server* of, gradstep_error* why) {
        auto& own = *static_cast<watch*>(host);
        if (++own.calls == own.fail_at) {
            own.reason.copy(why->message, sizeof why->message);
            return 5;
        }
        std::uint64_t count = 0;
        own.refusal = c_serving::refusal(
            GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return gradstep_server_handle(of, 1, "", 0, &count, e); });
        own.loads = c_serving::refusal(GRADSTEP_BAD_SEQUENCE,
                                       [&](gradstep_error* e) { return gradstep_server_load_file(of, "any", e); });
        gradstep_table* table = nullptr;
        must([&](gradstep_error* e) { return gradstep_server_table(of, "w", &table, e); });
        must([&](gradstep_error* e) { return gradstep_table_evict_to(table, 3, nullptr, nullptr, &count, e); });
        own.evicted += count;
        return 0;
    };
    for (std::string const& reason : {std::string(), std::string("the disk is full"), std::string(500, 'x')}) {
        seen = {};
        seen.reason = reason;
        c_serving::server const server(one_table, 0, 2);
        ok([&](gradstep_error* e) { return gradstep_server_after_every(server, 2, task, &seen, e); });
        one_thread by(server);
        c_serving::worker const worker(by.transport(), 1);
        std::vector<float> rows(2);
        auto const step = [&](std::int64_t t) {
            worker.pull("w", {2 * t, 2 * t + 1}, rows);
            worker.push("w", {2 * t, 2 * t + 1}, {1, 1});
        };
        for (std::int64_t t = 0; t != 6; ++t) step(t);
        worker.barrier();
        CHECK(seen.calls == 3);
        CHECK(seen.evicted == 9);
        auto const left = keys_of(server.table("w"));
        CHECK(std::vector(left.end() - 2, left.end()) == std::vector<std::uint64_t>{10, 11});
        CHECK(seen.refusal == "handle: is called by a task of the server; expected the call after it");
        CHECK(seen.loads == "load_file: is called by a task of the server; expected the call after it");
        seen.fail_at = 4;
        step(6);
        CHECK_THROWS(step(7));
        std::string const wanted = "task: " + reason.substr(0, 200);
        CHECK(by.failure.substr(0, wanted.size()) == wanted);
        CHECK((by.failure == (reason.empty() ? "task: returned 5; expected 0" : wanted) || reason.size() > 200));
    }
}

TEST_CASE("a server of C goes on from its checkpoint, and a worker from its position", "[c]") {
    folder const in;
    auto const file = in / "server.safetensors";
    std::vector<float> const ones{1, 1, 1, 1};
    auto const begin = [&](gradstep_server* server) {
        ok([&](gradstep_error* e) { return gradstep_server_checkpoint(server, file.c_str(), 2, e); });
    };
    std::vector<float> out(4);
    {
        c_serving::server const server(one_table, 0, 2);
        begin(server);
        one_thread by(server);
        c_serving::worker const worker(by.transport(), 1);
        worker.pull("v", out);
        for (int k = 0; k != 3; ++k) worker.push("v", ones);
        worker.pull("v", out);
        CHECK(out[0] == -3);
    } // both are killed: the file has two pushes
    c_serving::server const server(one_table, 0, 2);
    begin(server);
    one_thread by(server);
    c_serving::worker const worker(by.transport(), 1);
    auto const at = worker.info();
    CHECK((at.position == 2 && at.durable == 2));
    ok([&](gradstep_error* e) { return gradstep_worker_go_on_from(worker, 1, e); });
    worker.pull("v", out);
    CHECK(out[0] == -2);
    for (int k = 1; k != 4; ++k) worker.push("v", ones); // the first of them is there already
    worker.pull("v", out);
    CHECK(out[0] == -4);
    worker.stop();

    c_serving::server const other(one_table, 0, 2);
    ok([&](gradstep_error* e) { return gradstep_server_load_file(other, file.c_str(), e); });
    CHECK(other.info().finished == 1); // and the worker had stopped
}

TEST_CASE("a server of C that is saved to another file keeps no worker from sending again", "[c]") {
    folder const in;
    auto const file = in / "server.safetensors", elsewhere = in / "elsewhere.safetensors";
    std::vector<float> const ones{1, 1, 1, 1};
    std::vector<float> out(4);
    auto const begin = [&](gradstep_server* server) {
        ok([&](gradstep_error* e) { return gradstep_server_checkpoint(server, file.c_str(), 100, e); });
    };
    std::optional<c_serving::server> server;
    begin(server.emplace(one_table, 0, 2));
    one_thread by(*server);
    c_serving::worker const worker(by.transport(), 1);
    worker.pull("v", out);
    worker.push("v", ones);
    server->save(elsewhere);
    worker.push("v", ones);
    CHECK(worker.info().durable == 0);
    begin(server.emplace(one_table, 0, 2)); // killed before it has written its file
    by.restart(*server);
    worker.pull("v", out); // the worker has sent both again
    CHECK(out[0] == -2);
}

TEST_CASE("a function of a transport of C cannot call its worker", "[c]") {
    c_serving::server const server(one_table, 0, 2);
    one_thread by(server);
    c_serving::worker const worker(by.transport(), 1);
    std::string said;
    by.on_send = [&] {
        std::uint64_t count = 0;
        said = c_serving::refusal(GRADSTEP_BAD_SEQUENCE,
                                  [&](gradstep_error* e) { return gradstep_worker_size(worker, "v", &count, e); });
    };
    std::vector<float> out(4);
    worker.pull("v", out);
    CHECK(said == "worker: is called by a function of its transport; expected the call after it");
}

TEST_CASE("a parameter of C that cannot exchange changes keeps its values", "[c]") {
    std::string const text = R"({"mode": "geo", "tensors": {"w": {"rule": {"name": "add_delta"}, "type": "int64",
        "schedule": {"name": "constant", "rate": 1}, "parameter": {"size": 3}}}})";
    c_serving::server const server(text, 0, 2);
    one_thread by(server);
    c_serving::worker const worker(by.transport(), 1);
    std::vector<std::int64_t> const values_of_own{1, 2, 3};
    c_parameter const own = make(config_of(R"({"name": "add_delta"})"), values_of_own);
    gradstep_geo* geo = nullptr;
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_geo_create(worker, "w", own, &geo, e);
          }) == "geo: w: the weights are integers; expected float, double, bfloat16 or float16 without a master copy");
    CHECK(values<std::int64_t>(own) == values_of_own);
}

TEST_CASE("servers and workers of C pass on what their transport reports", "[c]") {
    auto over = gradstep_transport GRADSTEP_TRANSPORT_INIT;
    over.ranks = 2;
    over.send = [](void*, std::int32_t, void const*, std::uint64_t) { return 0; };
    over.receive = [](void*, std::int64_t, gradstep_inbox*) { return 3; };
    c_serving::server const server(one_table, 0, 2);
    CHECK(refused(GRADSTEP_RANK_FAILED, [&](gradstep_error* e) { return gradstep_server_run(server, &over, e); }) ==
          "transport.receive: returned 3; expected 0");
    over.rank = 1;
    gradstep_worker* worker = nullptr;
    auto const create = [&](gradstep_error* e) { return gradstep_worker_create(&over, nullptr, &worker, e); };
    CHECK(refused(GRADSTEP_RANK_FAILED, create) == "transport.receive: returned 3; expected 0");
    over.send = [](void*, std::int32_t, void const*, std::uint64_t) { return -1; };
    CHECK(refused(GRADSTEP_RANK_FAILED, create) == "transport.send: returned -1; expected 0");

    over.timeout_ms = 20;
    over.send = [](void*, std::int32_t, void const*, std::uint64_t) { return 0; };
    over.receive = [](void*, std::int64_t, gradstep_inbox*) { return 0; }; // no rank answers
    CHECK(refused(GRADSTEP_RANK_FAILED, create) == "rank 1: worker: rank 0 has not taken part within 40 ms");

    over.timeout_ms = 0;
    CHECK(refused(GRADSTEP_BAD_VALUE, create) == "transport.timeout_ms: 0 is out of range; expected > 0");
    over.timeout_ms = 20;
    over.rank = 2;
    CHECK(refused(GRADSTEP_BAD_VALUE, create) == "transport.rank: 2 is out of range; expected [0, 2)");
    over.rank = 1;
    over.concurrent = 2;
    CHECK(refused(GRADSTEP_BAD_VALUE, create) == "transport.concurrent: 2 is out of range; expected 0 or 1");
    CHECK(worker == nullptr);
}

TEST_CASE("workers of C refuse what does not fit before they send", "[c]") {
    c_serving::server const server(one_table, 0, 2);
    one_thread by(server);
    c_serving::worker const worker(by.transport(), 1);
    std::vector<float> out(4);
    auto const pull = [&](char const* name, std::int32_t dtype, std::uint64_t count) {
        return [&, name, dtype, count](gradstep_error* e) {
            return gradstep_worker_pull(worker, name, dtype, out.data(), count, e);
        };
    };
    refused(GRADSTEP_BAD_VALUE, pull("x", GRADSTEP_FLOAT32, 4));
    refused(GRADSTEP_BAD_VALUE, pull("v", GRADSTEP_FLOAT64, 4));
    refused(GRADSTEP_BAD_SIZE, pull("v", GRADSTEP_FLOAT32, 3));
    refused(GRADSTEP_BAD_VALUE, pull("w", GRADSTEP_FLOAT32, 1)); // rows
    refused(GRADSTEP_UNSUPPORTED_TYPE, pull("v", 99, 4));
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
        return gradstep_worker_pull_rows(worker, "w", out.data(), GRADSTEP_FLOAT32, 1, GRADSTEP_FLOAT32, out.data(), 1,
                                         e);
    });
    gradstep_worker_options options = GRADSTEP_WORKER_OPTIONS_INIT;
    gradstep_worker* other = nullptr;
    options.max_in_flight = 0;
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_worker_create(&by.transport(), &options, &other, e); });
    options = GRADSTEP_WORKER_OPTIONS_INIT;
    options.check_elements = 7;
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_worker_create(&by.transport(), &options, &other, e); });
    gradstep_server* bad = nullptr;
    std::string const no_mode = R"({"mode": "sometimes", "tensors": {}})";
    refused(GRADSTEP_BAD_CONFIG,
            [&](gradstep_error* e) { return gradstep_server_create(no_mode.data(), no_mode.size(), 0, 2, &bad, e); });
    refused(GRADSTEP_BAD_CONFIG, [&](gradstep_error* e) { // no rank is left for a worker
        return gradstep_server_create(one_table.data(), one_table.size(), 0, 1, &bad, e);
    });
    std::uint64_t count = 0;
    must([&](gradstep_error* e) { return gradstep_server_handle(server, 1, "junk", 4, &count, e); });
    CHECK(count == 1); // its sender gets an error
    gradstep_message message = GRADSTEP_MESSAGE_INIT;
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return gradstep_server_message(server, 1, &message, e); });
}
