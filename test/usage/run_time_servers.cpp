// The C++ of the pages docs/how_to/choose_at_run_time.md, keyed_tables.md and parameter_servers.md
// for keyed tables and servers whose policies are chosen at run time.
#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/server.hpp>
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
    bool const right = keyed_tables() && servers();
    std::printf(right ? "as the pages say\n" : "NOT AS THE PAGES SAY\n");
    return right ? 0 : 1;
}
