// A parameter server with two tables, each with its own rule, and workers that train them together:
//   mpirun -n 3 distributed_wide_and_deep [asynchronous | synchronous]
// Rank 0 is the server; the others draw their own samples. The wide part has a weight for each
// feature, with FTRL, and the deep part a vector, with Adagrad. If you start it again, also after a
// kill -9, the job resumes from the server's file.
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/worker.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr std::uint64_t features = 400, steps = 3000, pushes_a_step = 2;
constexpr std::size_t width = 4, active = 8;

// [server]
void serve(gd::mpi_communicator& by, gd::server_mode mode) {
    gd::server server(by, {.mode = mode});
    auto const ftrl = gs::make_updater<float>(gs::ftrl{.l1 = 1e-3}, gs::constant{0.1});
    auto const adagrad = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1});
    server.add("wide", gs::table{ftrl, features, 1});
    server.add("deep", gs::table{adagrad, features, width, gs::touch_only{}, {.initial = gs::normal{0, 0.1, 1}}});
    server.checkpoint("wide_and_deep_" + std::to_string(by.rank()) + ".safetensors", 1000); // each server its own file
    server.run(by);
    std::printf("served; gradients were %.2f steps late\n", server.staleness());
}
// [server]

// [worker]
void train(gd::mpi_communicator& by) {
    gd::worker worker(by);
    std::uint64_t step = worker.position() / pushes_a_step;
    worker.go_on_from(step * pushes_a_step);
    std::vector<std::uint64_t> ids(active);
    std::vector<float> wide(active), deep(active * width), of_wide(active), of_deep(active * width);
    double loss = std::log(2.0);
    for (; step < steps; ++step) {
        std::mt19937_64 draw(step * 100 + static_cast<std::uint64_t>(by.rank()));
        for (auto& id : ids) id = draw() % features;
        worker.pull("wide", ids, wide);
        worker.pull("deep", ids, deep);
        // The label is 1 if more features are even than odd. The logit is the sum of the weights
        // and of the first numbers of the vectors.
        float logit = 0, even = 0;
        for (std::size_t k = 0; k != active; ++k) {
            logit += wide[k] + deep[k * width];
            even += ids[k] % 2 == 0 ? 1.0f : -1.0f;
        }
        float const label = even > 0 ? 1 : 0, error = 1 / (1 + std::exp(-logit)) - label;
        for (std::size_t k = 0; k != active; ++k) of_wide[k] = of_deep[k * width] = error;
        worker.push("wide", ids, of_wide); // returns at once
        worker.push("deep", ids, of_deep);
        loss += 0.002 * (-std::log(label > 0 ? 1 + error : 1 - error) - loss);
        if (by.rank() == 1 && step % 500 == 499)
            std::printf("step %llu, loss %.3f\n", static_cast<unsigned long long>(step + 1), loss);
    }
    worker.stop();
}
// [worker]

} // namespace

int main(int argc, char** argv) {
    bool const synchronous = argc > 1 && std::string(argv[1]) == "synchronous";
    gd::mpi_session mpi;
    mpi.run([&] {
        gd::mpi_communicator by;
        if (by.rank() == 0) serve(by, synchronous ? gd::server_mode::synchronous : gd::server_mode::asynchronous);
        else train(by);
    });
}
