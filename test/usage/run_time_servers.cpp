// The C++ of the pages docs/how_to/choose_at_run_time.md and data_parallel.md for keyed tables,
// servers and workers whose policies are chosen at run time.
#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/server_configuration.hpp>
#include <gradstep/distributed/synchronous.hpp>
#include <gradstep/distributed/threads.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/runtime/any_keyed_table.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

std::string const text = R"({"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1}})";

bool keyed_tables() {
    std::vector<std::uint64_t> const keys{7, 1234567890123, 7};
    std::vector<float> const gradient(keys.size() * 8, 0.5f);
    std::vector<float> rows(keys.size() * 8);
    // [keyed]
    gs::any_keyed_table features{gs::read_optimizer(text), gs::scalar::float32, 8, {.initial = gs::normal{0, 0.01, 1}}};
    features.update(keys, gradient);
    features.rows(keys, rows);

    gs::any_keyed_table replica{gs::read_optimizer(text), gs::scalar::float32, 8};
    std::vector<std::byte> const changes = features.changed_since(0); // for another process
    replica.apply(changes);
    features.evict_to(1'000'000);
    // [keyed]
    return features.num_rows() == 2 && replica.num_rows() == 2 && rows[0] != 0;
}

bool tables_of_texts() {
    // [one text]
    gs::any_table embeddings{gs::read_table(R"({
        "rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1}, "type": "float32",
        "table": {"rows": 1000, "width": 16, "duplicates": "mean", "max_norm": 1,
                  "initial": {"name": "uniform", "low": -0.05, "high": 0.05, "seed": 1}}})")};
    gs::any_keyed_table features{gs::read_keyed_table(R"({
        "rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1},
        "keyed_table": {"width": 8, "admit_after": 3, "max_rows": 50000000}})")};
    // [one text]
    return embeddings.num_rows() == 1000 && features.options().admit_after == 3;
}

// [server.json]
char const* const text_of_servers = R"({"mode": "asynchronous", "num_servers": 1, "tensors": {
    "deep": {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
             "parameter": {"size": 4096, "initial": {"name": "normal", "mean": 0, "deviation": 0.01, "seed": 1}}},
    "wide": {"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 0.1},
             "table": {"rows": 1000, "width": 16}},
    "features": {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
                 "keyed_table": {"width": 8, "admit_after": 3,
                                 "evict": {"every": 10000, "older_than": 100000, "rows": 50000000}}}
}})";
// [server.json]

bool servers_of_texts() {
    // [server of a text]
    gd::server_configuration const from = gd::read_server(text_of_servers); // or read_server_file("server.json")
    gd::server server = gd::make_server(from, 0, 3);                        // rank 0 of 3
    // [server of a text]
    return server.size() == 3 && server.get<gs::any_table>("wide").num_rows() == 1000;
}

bool workers() {
    std::vector<float> w(100, 1.0f);
    std::vector<float> const gradient(100, 0.5f);
    gd::thread_ranks(1).run([&](gd::thread_communicator& by) {
        // [worker]
        gd::synchronous worker(by); // or gd::sharded, gd::compressed
        worker.add("w", gs::any_updater{gs::read_optimizer(text), gs::scalar::float32}, w);
        worker.push("w", gradient);
        worker.pull("w", w);
        worker.stop();
        // [worker]
    });
    return w[0] < 1;
}

bool servers() {
    std::vector<float> const initial(100, 1.0f);
    // [server]
    gs::optimizer_configuration const optimizer = gs::read_optimizer(text);
    gd::server server(0, 3, {.num_servers = 1}); // rank 0 of 3
    server.add("deep", gs::any_updater{optimizer, gs::scalar::float32}, initial);
    server.add("wide", gs::any_table{optimizer, gs::scalar::float32, 1000, 16});
    server.add("features", gs::any_keyed_table{optimizer, gs::scalar::float32, 8});
    // [server]
    return server.size() == 3 && server.get<gs::any_parameter>("deep").size() == 100;
}

} // namespace

int main() {
    bool const right = keyed_tables() && workers() && servers() && tables_of_texts() && servers_of_texts();
    std::printf(right ? "as the pages say\n" : "NOT AS THE PAGES SAY\n");
    return right ? 0 : 1;
}
