// Steps of a mode on real processes, and what a simulation of them has to know of the machine
// (simulate.py --measured): one JSON object a line, which measured.py puts together.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/distributed/compressed.hpp>
#include <gradstep/distributed/geo.hpp>
#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/gradstep.hpp>

#include "../measure.hpp"
#include "distributed.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr double compute_s = 0.02; // of an accelerator, for which a process waits
constexpr int warm_up = 5, local_steps = 16, servers = 1;

// Ranks under MPI, and the bytes that this one has sent to others.
class counting_ranks : public gd::mpi_communicator {
public:
    std::size_t sent = 0;

    void send(int to, std::vector<std::byte> bytes) {
        if (to != rank()) sent += bytes.size();
        gd::mpi_communicator::send(to, std::move(bytes));
    }
    exchange_type exchange(int channel, std::span<std::span<std::byte const> const> to,
                           std::span<std::span<std::byte> const> from) {
        for (std::size_t r = 0; r != to.size(); ++r)
            if (static_cast<int>(r) != rank()) sent += to[r].size();
        return gd::mpi_communicator::exchange(channel, to, from);
    }
};

auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
auto const adding = gs::make_updater<float>(gs::add_delta{}, gs::constant{1});
auto compressing(int ranks) {
    return gs::make_updater<float>(
        gs::dgc_momentum{.rampup_begin_step = 0, .rampup_step = 1, .sparsity = {0.999}, .num_trainers = ranks},
        gs::constant{1e-3});
}

// What a rank has seen.
struct seen {
    double seconds = 0, computed = 0; // of all steps, and of their computation
    double sent = 0, steps = 0;
    double staleness = 0; // that a server has seen
};

// Steps of a worker: `step` is what follows the computation.
template <class Step> seen train(counting_ranks& by, int steps, Step const& step) {
    seen out;
    std::size_t const before = by.sent;
    double const begin = measure::wall_time();
    for (int t = 0; t != steps; ++t) {
        double const from = measure::wall_time();
        std::this_thread::sleep_for(std::chrono::duration<double>(compute_s));
        out.computed += measure::wall_time() - from;
        step();
    }
    out.seconds = measure::wall_time() - begin;
    out.sent = static_cast<double>(by.sent - before);
    out.steps = steps;
    return out;
}
// First some that do not count; then those that do, which all workers begin together. In multiples
// of `every`.
template <class Worker, class Step>
seen train(counting_ranks& by, Worker& worker, int steps, int every, Step const& step) {
    train(by, (warm_up + every - 1) / every * every, step);
    worker.barrier();
    seen const out = train(by, (steps + every - 1) / every * every, step);
    worker.stop();
    return out;
}

std::vector<float> gradient(std::size_t count, int rank) {
    std::vector<float> out(count);
    auto bits = static_cast<std::uint32_t>(rank + 1);
    for (float& x : out) {
        bits = bits * 1664525u + 1013904223u;
        x = static_cast<float>(bits >> 8) / static_cast<float>(1 << 24) - 0.5f;
    }
    return out;
}

template <class Worker, class Optimizer>
seen in_step(counting_ranks& by, distributed_options const& o, Optimizer const& optimizer) {
    std::vector<float> w(o.elements);
    std::vector<float> const g = gradient(o.elements, by.rank());
    Worker worker(by);
    worker.add("w", optimizer, w);
    return train(by, worker, o.rounds, 1, [&] {
        worker.push("w", g);
        worker.pull("w", w);
    });
}

seen serve(counting_ranks& by, gd::server_mode mode, distributed_options const& o) {
    std::vector<float> const w(o.elements);
    gd::server server(by, {.mode = mode, .num_servers = servers});
    if (mode == gd::server_mode::geo) server.add("w", adding, w);
    else server.add("w", adam, w);
    server.run(by);
    seen out;
    out.staleness = server.staleness() * (mode == gd::server_mode::geo ? local_steps : 1);
    return out;
}
seen work(counting_ranks& by, gd::server_mode mode, distributed_options const& o) {
    std::vector<float> w(o.elements);
    std::vector<float> const g = gradient(o.elements, by.rank());
    gd::worker worker(by, {.num_servers = servers});
    if (mode == gd::server_mode::geo) {
        gd::geo_parameter local(worker, "w", adam, local_steps);
        return train(by, worker, o.rounds, local_steps, [&] { local.update(g); });
    }
    worker.pull("w", w);
    return train(by, worker, o.rounds, 1, [&] {
        worker.push("w", g);
        worker.pull("w", w);
    });
}

// The median of seconds of `f`, of which all ranks begin each together.
template <class F> double seconds_of(gd::mpi_communicator& by, int rounds, F const& f) {
    measure::samples out;
    for (int round = -1; round != rounds; ++round) {
        auto together = gd::begin_barrier(by, 0);
        gd::finish(by, together, "the barrier");
        double const begin = measure::wall_time();
        f();
        if (round >= 0) out.push_back(measure::wall_time() - begin);
    }
    return measure::quartiles(out).median;
}

} // namespace

void print_machine(distributed_options const& o) {
    gd::mpi_communicator by;
    if (by.size() != 2)
        gs::detail::fail<gs::value_error>({"--machine"}, {"there are ", by.size(), " processes"}, {"2"});
    int const other = 1 - by.rank();
    std::size_t const n = o.elements, half = n * sizeof(float) / 2; // what two ranks exchange at once
    auto const swap = [&](std::size_t bytes) {
        std::vector<std::byte> const mine(bytes);
        std::vector<std::byte> theirs(bytes);
        std::vector<std::span<std::byte const>> to(2);
        std::vector<std::span<std::byte>> from(2);
        to[static_cast<std::size_t>(other)] = mine;
        from[static_cast<std::size_t>(other)] = theirs;
        return seconds_of(by, o.rounds, [&] {
            auto exchange = by.exchange(1, to, from);
            gd::finish(by, exchange, "an exchange");
        });
    };
    double const small = swap(8), large = swap(half);
    std::vector<float> const g = gradient(n, by.rank());
    std::vector<float> room(n);
    // A message there and back: both ends take memory for it.
    auto const put = [&] { by.send(other, std::vector<std::byte>(n * sizeof(float))); };
    auto const take = [&] {
        if (!by.receive(by.timeout())) gs::detail::fail<gd::rank_error>({"--machine"}, {"no message came"});
    };
    double const both_ways = seconds_of(by, o.rounds, [&] {
        if (by.rank() == 0) put();
        take();
        if (by.rank() == 1) put();
    });
    double const copy = seconds_of(by, o.rounds, [&] { // what each end does with its elements; they have no checksum
        std::memcpy(room.data(), g.data(), n * sizeof(float));
    });
    gs::parameter updated(adam, g);
    double const update = seconds_of(by, o.rounds, [&] { updated.update(g); });
    gs::parameter added(adding, g);
    double const add = seconds_of(by, o.rounds, [&] { added.update(g); });
    gs::compressed_parameter sparse(compressing(1), g);
    gs::sparse_message message;
    double apply = 0;
    double const both_halves = seconds_of(by, o.rounds, [&] {
        message = sparse.compress(g);
        apply += measure::seconds([&] { sparse.apply(message); }, 1);
    });
    apply /= o.rounds + 1;
    if (by.rank() != 0) return;
    auto const elements = static_cast<double>(n);
    // A rank in step copies what it pushes and pulls.
    std::printf("{\"scenario\": {\"name\": \"processes of one machine\", \"parameters\": %zu, \"bandwidth\": %.4g, "
                "\"latency_s\": %.3g, \"update_s\": %.3g, \"add_s\": %.3g, \"compress_s\": %.3g, \"entry_s\": %.3g}, "
                "\"with_servers\": {\"bandwidth\": %.4g, \"update_s\": %.3g, \"wire_s\": %.3g}}\n",
                n, static_cast<double>(half) / (large - small), small, (update + 2 * copy) / elements, add / elements,
                (both_halves - apply + 2 * copy) / elements, apply / static_cast<double>(message.count()),
                elements * sizeof(float) / (both_ways / 2 - small), update / elements, copy / elements);
}

void print_run(std::string const& mode, distributed_options const& o) {
    counting_ranks by;
    auto const in_mode = [&](gd::server_mode which) {
        return by.rank() < servers ? serve(by, which, o) : work(by, which, o);
    };
    bool const has_servers = mode == "server_synchronous" || mode == "asynchronous" || mode == "geo";
    int const workers = by.size() - (has_servers ? servers : 0);
    seen const own = mode == "synchronous"    ? in_step<gd::synchronous<counting_ranks>>(by, o, adam)
                     : mode == "sharded"      ? in_step<gd::sharded<counting_ranks>>(by, o, adam)
                     : mode == "compressed"   ? in_step<gd::compressed<counting_ranks>>(by, o, compressing(by.size()))
                     : mode == "asynchronous" ? in_mode(gd::server_mode::asynchronous)
                     : mode == "geo"          ? in_mode(gd::server_mode::geo)
                                              : in_mode(gd::server_mode::synchronous);
    double const mine[] = {own.computed, own.sent, own.steps, own.staleness,
                           own.steps == 0 ? 0 : own.steps / own.seconds};
    double all[std::size(mine)];
    MPI_Allreduce(mine, all, static_cast<int>(std::size(mine)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (by.rank() != 0) return;
    std::printf("{\"mode\": \"%s\", \"workers\": %d, \"compute_s\": %.5g, \"bytes\": %.0f, \"steps_per_s\": %.5g",
                mode.c_str(), workers, all[0] / all[2], all[1] / all[2], all[4] / workers);
    if (has_servers) std::printf(", \"servers\": %d", servers);
    if (mode == "asynchronous" || mode == "geo") std::printf(", \"staleness\": %.3g", all[3]);
    if (mode == "geo") std::printf(", \"local_steps\": %d", local_steps);
    std::printf("}\n");
}
