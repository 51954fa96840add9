// What a step of ranks in step costs beyond what cannot be had for less: the computation, or MPI's
// own all-reduce.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>
#include <gradstep/gradstep.hpp>

#include "../measure.hpp"
#include "distributed.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr std::size_t layers = 8;

double thread_time() {
    std::timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
// A computation of so many seconds of this thread on its core: what it loses to others comes on
// top.
void on_the_cpu(double seconds) {
    double const end = thread_time() + seconds;
    while (thread_time() < end) {
    }
}
// One of an accelerator that is to be done at this time, for which the thread waits: it goes on
// while the thread does something else.
void on_a_device_until(double time) {
    std::this_thread::sleep_for(std::chrono::duration<double>(time - measure::wall_time()));
}

struct workload {
    std::vector<std::string> names;
    std::vector<std::vector<float>> weights, gradients;

    explicit workload(std::size_t elements) {
        for (std::size_t k = 0; k != layers; ++k) {
            names.push_back("layer " + std::to_string(k));
            weights.emplace_back(elements / layers, 1.0f);
            gradients.emplace_back(elements / layers, 0.001f);
        }
    }
    template <class Worker> void add_to(Worker& worker) const {
        auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{0.01});
        for (std::size_t k = 0; k != layers; ++k) worker.add(names[k], optimizer, weights[k]);
    }
    template <class Push> static void compute(double seconds, bool on_device, Push const& push) {
        double const begin = measure::wall_time(), each = seconds / layers;
        for (std::size_t k = layers; k-- != 0;) {
            if (on_device) on_a_device_until(begin + static_cast<double>(layers - k) * each);
            else on_the_cpu(each);
            push(k);
        }
    }
    // Backwards from the last layer, each of whose gradients is sent while the next one is
    // computed.
    template <class Worker> void step(Worker& worker, double seconds, bool on_device) {
        compute(seconds, on_device, [&](std::size_t k) { worker.push(names[k], gradients[k]); });
        for (std::size_t k = 0; k != layers; ++k) worker.template pull<float>(names[k]);
    }
};

} // namespace

void synchronous_lines(gd::mpi_communicator& by, distributed_options const& o, report& out) {
    std::size_t const n = o.elements / layers * layers;
    workload work(n);
    gd::mpi_communicator of_dense, of_sharded, of_sums; // each begins its exchanges in an order of its own
    gd::synchronous dense(of_dense);
    gd::sharded sharded(of_sharded);
    work.add_to(dense);
    work.add_to(sharded);
    std::vector<float> values(n, 1.0f);
    int channel = 0;
    out.section("ranks in step");

    for (double const seconds : {0.02, 0.1})
        for (bool const on_device : {true, false}) {
            std::function<void()> const variants[] = {
                [&] {
                    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                },
                [&] {
                    auto sums = gd::begin_all_reduce(of_sums, channel, std::span(values), gd::reduction::mean);
                    gd::finish(of_sums, sums, "sums");
                },
                [&] { workload::compute(seconds, on_device, [](std::size_t) {}); },
                [&] { work.step(dense, seconds, on_device); },
                [&] { work.step(sharded, seconds, on_device); },
            };
            constexpr std::size_t count = std::size(variants);
            std::vector<measure::samples> times(count);
            for (int round = -1; round != o.rounds; ++round) // the first is not counted
                for (std::size_t k = 0; k != count; ++k) {
                    std::size_t const which = (k + static_cast<std::size_t>(round + 1)) % count;
                    auto together = gd::begin_barrier(by, 0);
                    gd::finish(by, together, "the barrier");
                    double const begin = measure::wall_time();
                    variants[which]();
                    double seconds_of_slowest = measure::wall_time() - begin;
                    MPI_Allreduce(MPI_IN_PLACE, &seconds_of_slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
                    if (round >= 0) times[which].push_back(seconds_of_slowest);
                }
            if (by.rank() != 0) continue;
            measure::samples least = times[2];
            for (std::size_t r = 0; r != least.size(); ++r) least[r] = std::max(least[r], times[0][r]);
            std::string const beside = std::to_string(by.size()) + " x " + size_text(n) + ", " +
                                       std::to_string(static_cast<int>(seconds * 1000)) + " ms on " +
                                       (on_device ? "a device" : "the CPU") + ": ";
            auto const milliseconds = [&](char const* of, std::size_t k) {
                out.line(beside + of + ", ms", scaled(measure::quartiles(times[k]), 1000));
            };
            milliseconds("MPI_Allreduce alone", 0);
            milliseconds("all-reduce of gradstep alone", 1);
            milliseconds("computation alone", 2);
            milliseconds("synchronous step", 3);
            milliseconds("sharded step", 4);
            out.line(beside + "synchronous / the larger", measure::ratio(times[3], least), 1.1);
            out.line(beside + "sharded / the larger", measure::ratio(times[4], least));
        }
    dense.stop();
    sharded.stop();
}
