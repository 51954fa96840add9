// Steps of every mode on real processes, and what a simulation of them has to know of the machine (simulate.py --measured): one JSON
// object a line, which measured.py puts together.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/compressed.hpp>
#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>
#include <gradstep/gradstep.hpp>

#include "../measure.hpp"
#include "distributed.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr double compute_s = 0.02; // on a device, for which the processes wait

auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.001});
auto dgc(int ranks) {
    return gs::make_updater<float>(gs::dgc_momentum{.rampup_begin_step = 0, .sparsity = {0.999}, .num_trainers = ranks},
                                   gs::constant{0.001});
}

// The median of the times of f on this rank, after one that is not counted.
double median(int rounds, std::function<void()> const& f) {
    f();
    measure::samples times;
    for (int round = 0; round != rounds; ++round) times.push_back(measure::seconds(f, 1));
    return measure::quartiles(times).median;
}

std::vector<float> gradient(std::size_t n, int rank) {
    std::vector<float> out(n);
    for (std::size_t i = 0; i != n; ++i)
        out[i] = static_cast<float>((i * 2654435761u + static_cast<std::size_t>(rank) * 97) % 2001) / 1000 - 1;
    return out;
}

// Steps of a worker of one parameter, all of whose gradient is there at the end of the computation.
template <class Worker> double step_s(gd::mpi_communicator& by, Worker& worker, distributed_options const& o) {
    auto const g = gradient(o.elements, by.rank());
    std::vector<float> w(o.elements);
    worker.barrier();
    double const seconds = median(o.rounds, [&] {
        std::this_thread::sleep_for(std::chrono::duration<double>(compute_s));
        worker.push("w", g);
        worker.pull("w", w);
    });
    worker.stop();
    return seconds;
}

void print_run(gd::mpi_communicator& by, char const* mode, std::size_t bytes, double seconds) {
    if (by.rank() == 0)
        std::printf("{\"mode\": \"%s\", \"workers\": %d, \"compute_s\": %g, \"bytes\": %zu, \"steps_per_s\": %.4g}\n",
                    mode, by.size(), compute_s, bytes, 1 / seconds);
}

} // namespace

void print_machine(gd::mpi_communicator& by, distributed_options const& o) {
    std::size_t const n = o.elements, entries = n / 1000;
    auto const g = gradient(n, by.rank());
    std::vector<float> values(n), sum(n);
    double const latency = median(10 * o.rounds, [&] {
        auto all = gd::begin_barrier(by, 0);
        gd::finish(by, all, "the barrier");
    });
    double const gather = median(o.rounds, [&] {
        auto all = gd::begin_all_gather(by, 0, std::span(values));
        gd::finish(by, all, "all pieces");
    });
    double const sent = static_cast<double>(gd::piece_of(n, by.size(), by.rank()).size() * sizeof(float)) *
                        static_cast<double>(by.size() - 1);
    gs::parameter weights{adam, values};
    double const update = median(o.rounds, [&] { weights.update(g); });
    double const add = median(o.rounds, [&] {
        for (std::size_t i = 0; i != n; ++i) sum[i] = values[i] + g[i];
    });
    gs::parameter compressed{dgc(1), values};
    gs::sparse_message message;
    double compress = 0, apply = 0;
    compress = median(o.rounds, [&] {
        message = compressed.compress(g);
        apply += measure::seconds([&] { compressed.apply(message); }, 1);
    });
    apply /= o.rounds + 1;
    if (by.rank() == 0)
        std::printf(
            "{\"name\": \"processes of one machine\", \"parameters\": %zu, \"bandwidth\": %.4g, \"latency_s\": %.3g, "
            "\"update_s\": %.3g, \"add_s\": %.3g, \"compress_s\": %.3g, \"entry_s\": %.3g}\n",
            n, sent / gather, latency, update / static_cast<double>(n), add / static_cast<double>(n),
            (compress - apply) / static_cast<double>(n), apply / static_cast<double>(entries));
}

void print_runs(gd::mpi_communicator& by, distributed_options const& o) {
    std::vector<float> const w(o.elements);
    std::size_t const others = static_cast<std::size_t>(by.size()) - 1,
                      whole = 2 * o.elements * sizeof(float) * others / (others + 1);
    {
        gd::synchronous worker(by);
        worker.add("w", adam, w);
        print_run(by, "synchronous", whole, step_s(by, worker, o));
    }
    {
        gd::sharded worker(by);
        worker.add("w", adam, w);
        print_run(by, "sharded", whole, step_s(by, worker, o));
    }
    {
        gd::compressed worker(by);
        worker.add("w", dgc(by.size()), w);
        double const seconds = step_s(by, worker, o);
        print_run(by, "compressed", (worker.message_bytes() + 8) * others, seconds);
    }
}
