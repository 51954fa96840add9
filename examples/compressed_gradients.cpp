// Four trainers that send each other compressed gradients: each trains on its own data, and all
// hold the same weights. Here they are threads, and the network is a piece of shared memory.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include "common/all_gather.hpp"

namespace gs = gradstep;

constexpr std::size_t trainers = 4;

/// The data of trainer `rank`. The minimum over all trainers is 1 in every weight.
float data(std::size_t i, std::size_t rank) { return 1 + 0.1f * (static_cast<float>((i + rank) % trainers) - 1.5f); }

int main() {
    std::size_t const n = 20'000;
    std::int64_t const steps = 1000;
    // [updater]
    auto const optimizer = gs::make_updater<float>(gs::dgc_momentum{.mu = 0.9,
                                                                    .rampup_begin_step = 50,
                                                                    .rampup_step = 200,
                                                                    .sparsity = {0.75, 0.9375, 0.984375, 0.996},
                                                                    .num_trainers = trainers},
                                                   gs::cosine{.rate = 2e-3, .steps = steps});
    // [updater]
    all_gather<std::vector<std::byte>> exchange(trainers);
    std::vector<std::vector<float>> weights(trainers, std::vector<float>(n));
    std::vector<std::size_t> bytes_sent(trainers);

    auto const train = [&](std::size_t rank) {
        std::vector<float>& w = weights[rank];
        // [loop]
        auto mine = optimizer; // each trainer has its own clock, u and v
        std::vector<float> g(n), u(n), v(n);
        mine.initialize(w, u, v);
        for (std::int64_t t = 0; t < steps; ++t) {
            for (std::size_t i = 0; i < n; ++i) g[i] = w[i] - data(i, rank); // backward

            auto const step = mine.next_step();
            std::vector<std::byte> const bytes = step.compress(g, u, v).encode();
            std::vector<gs::sparse_message> messages;
            for (auto const& each : exchange(rank, bytes)) messages.push_back(gs::sparse_message::decode(each));
            step.apply(w, u, v, messages);
            bytes_sent[rank] += bytes.size();
        }
        // [loop]
    };
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < trainers; ++rank) threads.emplace_back(train, rank);
    }

    bool same = true;
    for (auto const& each : weights) same = same && each == weights[0];
    double distance = 0;
    for (float const x : weights[0]) distance += std::fabs(x - 1) / static_cast<double>(n);
    double const share =
        static_cast<double>(bytes_sent[0]) / static_cast<double>(steps) / static_cast<double>(n * sizeof(float));
    std::printf("%zu trainers, the same weights: %s; sent %.1f %% of what dense gradients are; mean distance from the "
                "minimum %.1e\n",
                trainers, same ? "yes" : "no", 100 * share, distance);
    return same && share < 0.15 && distance < 1e-2 ? 0 : 1;
}
