// A server and a worker over TCP, for pushes.py:
//   pushes server ADDRESS ADDRESS      pushes worker ADDRESS ADDRESS
// The worker writes how many pushes the server has applied in a second.
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "../../examples/distributed/tcp.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr std::size_t keys_in_a_push = 1024, width = 16, pushes = 2000;
constexpr std::uint64_t features = 65'536;

void serve(tcp_messenger& by) {
    gd::server server(by);
    server.add("features", gs::keyed_table{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}), width});
    server.run(by);
}

void work(tcp_messenger& by) {
    gd::worker worker(by);
    std::vector<std::uint64_t> keys(keys_in_a_push);
    std::vector<float> rows(keys_in_a_push * width, 0.5f);
    std::uint64_t next = 0;
    auto const push = [&](std::size_t times) {
        for (std::size_t i = 0; i != times; ++i) {
            for (auto& key : keys) key = (next++ * 2654435761 % features + 1) * 0x9e3779b97f4a7c15;
            worker.push("features", keys, rows);
        }
        worker.barrier();
    };
    worker.pull("features", keys, rows);
    push(pushes / 10); // every key has its row then
    auto const begin = std::chrono::steady_clock::now();
    push(pushes);
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    worker.stop();
    std::printf("%.1f\n", static_cast<double>(pushes) / took.count());
}

} // namespace

int main(int count, char** arguments) {
    if (count != 4) return 2;
    try {
        bool const serves = arguments[1] == std::string_view("server");
        tcp_messenger by(serves ? 0 : 1, {arguments + 2, arguments + count});
        if (serves) serve(by);
        else work(by);
        return 0;
    } catch (std::exception const& wrong) {
        std::fprintf(stderr, "pushes: %s\n", wrong.what());
        return 1;
    }
}
