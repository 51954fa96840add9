#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/keyed_table.hpp>

#include "impressions.hpp"

namespace gd = gradstep::distributed;

// The model of one_process.cpp on several ranks: the first two are servers, the others are workers.
// `Transport` is a gd::thread_communicator or a gd::mpi_communicator.

constexpr int num_servers = 2;

// [types]
inline auto const ftrl = gs::make_updater<float>(gs::ftrl{.l1 = 0.5, .beta = 1}, gs::constant{0.2});
using weights_type = gs::keyed_table<std::remove_const_t<decltype(ftrl)>, gs::exact>;
// [types]

// [server]
template <class Transport> void serve(Transport& by, std::string const& folder) {
    gd::server server(by, {.mode = gd::server_mode::asynchronous, .num_servers = num_servers});
    gs::keyed_options const options{.admit_after = 3, .sketch_bytes = 1 << 22, .sketch_half_life = 1000};
    server.add("weights", weights_type(ftrl, 1, gs::exact{}, options));
    server.after_every(500, [](gd::server& self) {
        auto& weights = self.get<weights_type>("weights");
        weights.evict_older_than(weights.clock().step - 1000);
    });
    server.checkpoint(folder + "/server_" + std::to_string(by.rank()) + ".safetensors", 1000);
    server.run(by); // until all workers have stopped
    auto const& weights = server.get<weights_type>("weights");
    std::printf("server %d: %llu rows, %llu rows evicted, gradients were %.1f steps late\n", by.rank(),
                static_cast<unsigned long long>(weights.num_rows()),
                static_cast<unsigned long long>(weights.counts().evicted), server.staleness());
}
// [server]

// [worker]
template <class Transport> void work(Transport& by, std::uint64_t steps, std::uint64_t dies_at) {
    gd::worker worker(by, {.num_servers = num_servers});
    if (worker.has_stopped()) return worker.stop(); // the job was done before
    auto const workers = static_cast<std::uint64_t>(worker.num_workers());
    auto const number = static_cast<std::uint64_t>(by.rank() - num_servers);
    // One push a step, so the position is the number of this worker's steps that all servers have
    // saved.
    std::uint64_t done = worker.position();
    if (done != 0)
        std::printf("worker %llu goes on at its step %llu\n", static_cast<unsigned long long>(number),
                    static_cast<unsigned long long>(done));
    losses seen;
    for (; done != steps / workers; ++done) {
        if (done == dies_at && number == 0) std::_Exit(9); // a crash, to try a restart
        auto const batch = impressions_of(done * workers + number);
        std::vector<std::uint64_t> const keys = keys_of(batch);
        std::vector<float> now(keys.size());
        worker.pull("weights", keys, now);
        worker.push("weights", keys, gradients_of(batch, now, seen)); // returns at once
        if (number != 0 || done % 500 != 499) continue;
        std::printf("worker 0, its step %4llu: loss %.4f (the truth: %.4f)\n",
                    static_cast<unsigned long long>(done + 1), seen.mean(), seen.best());
        seen = {};
    }
    worker.stop();
}
// [worker]
