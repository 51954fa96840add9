// Linear regression on several processes, in a mode of your choice:
//   mpirun -n 2 distributed_regression [synchronous | sharded | compressed]
// Each has samples of its own; all end with the same bits.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/compressed.hpp>
#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr std::size_t features = 20'000, batch = 32;
constexpr int steps = 400;

// The samples of one rank: of `features` inputs a few are 1 or -1, and y = x * truth + 3, where
// truth is 1, -1, 1, -1, ...
class samples {
public:
    explicit samples(int rank) : numbers_(static_cast<std::uint32_t>(rank)) {}

    // The mean gradient of (x * w + bias - y)^2 / 2 over a batch of new samples; returns the mean
    // loss.
    double gradient(std::vector<float> const& w, float bias, std::vector<float>& of_w, float& of_bias) {
        of_w.assign(w.size(), 0.0f);
        of_bias = 0;
        double loss = 0;
        for (std::size_t s = 0; s != batch; ++s) {
            std::size_t which[20];
            float x[20], error = bias - 3;
            for (std::size_t k = 0; k != 20; ++k) {
                which[k] = numbers_() % 400;
                x[k] = numbers_() % 2 == 0 ? 1.0f : -1.0f;
                error += x[k] * (w[which[k]] - (which[k] % 2 == 0 ? 1.0f : -1.0f));
            }
            for (std::size_t k = 0; k != 20; ++k) of_w[which[k]] += x[k] * error / batch;
            of_bias += error / batch;
            loss += error * error / (2 * batch);
        }
        return loss;
    }

private:
    std::mt19937 numbers_;
};

// [train]
// The same loop in every mode.
template <class Worker> void train(Worker& worker, int rank) {
    std::vector<float> w(features), bias(1), of_w(features), of_bias(1);
    samples mine(rank);
    for (int step = 0; step != steps; ++step) {
        worker.pull("w", w); // waits for the step of the earlier pushes, and copies
        worker.pull("bias", bias);
        double const loss = mine.gradient(w, bias[0], of_w, of_bias[0]);
        worker.push("w", of_w); // starts to send, and returns
        worker.push("bias", of_bias);
        if (rank == 0 && step % 50 == 0) std::printf("step %3d, loss %.4f\n", step, loss);
    }
    worker.barrier(); // waits for all ranks
    worker.pull("w", w);
    worker.pull("bias", bias);
    worker.stop();
    if (rank == 0) std::printf("w = %.3f, %.3f, ..., bias = %.3f\n", w[0], w[1], bias[0]);
}
// [train]

// [modes]
void run(gd::mpi_communicator& by, std::string const& mode) {
    std::vector<float> const w(features), bias(1);
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.02});
    if (mode == "synchronous") {
        gd::synchronous worker(by);
        worker.add("w", adam, w);
        worker.add("bias", adam, bias);
        train(worker, by.rank());
    } else if (mode == "sharded") { // each rank stores a part of the state
        gd::sharded worker(by);
        worker.add("w", adam, w);
        worker.add("bias", adam, bias);
        train(worker, by.rank());
    } else if (mode == "compressed") { // a hundredth of each gradient of w is sent
        auto const dgc = gs::make_updater<float>(
            gs::dgc_momentum{.mu = 0.5, .rampup_begin_step = 0, .sparsity = {0.99}, .num_trainers = by.size()},
            gs::constant{0.4});
        gd::compressed worker(by);
        worker.add("w", dgc, w);
        worker.add("bias", adam, bias);
        train(worker, by.rank());
        if (by.rank() == 0) std::printf("%zu bytes in the last message\n", worker.message_bytes());
    } else {
        throw std::invalid_argument("there is no mode " + mode + "; there is synchronous, sharded, compressed");
    }
}
// [modes]

} // namespace

// [main]
int main(int count, char** arguments) {
    gd::mpi_session mpi;
    mpi.run([&] {
        gd::mpi_communicator by;
        run(by, count > 1 ? arguments[1] : "synchronous");
    });
}
// [main]
