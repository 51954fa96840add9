// The ninth program of the public contract, second part: gradients that are sent compressed. The
// regularizer looks at the parameter, which compress is therefore given first.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace gs = gradstep;

int main() {
    // What the program takes as given: four trainers, each with a gradient of its own and the same
    // parameter.
    std::size_t const n = 20000, trainers = 4;
    struct trainer {
        std::vector<float> w, g, u, v;
    };
    std::vector<trainer> all(trainers);
    for (std::size_t r = 0; r < trainers; ++r) {
        all[r] = {std::vector<float>(n, 1.0f), std::vector<float>(n), std::vector<float>(n), std::vector<float>(n)};
        for (std::size_t i = 0; i < n; ++i) all[r].g[i] = static_cast<float>((i * 7 + r) % 13) - 6;
    }

    auto optimizer = gs::make_updater<float>(gs::dgc_momentum{.mu = 0.9,
                                                              .rampup_begin_step = 1000,
                                                              .rampup_step = 400,
                                                              .sparsity = {0.75, 0.9375, 0.984375, 0.996, 0.999},
                                                              .num_trainers = 4},
                                             gs::l2{1e-4}, gs::constant{0.1});
    bool right = true;
    for (auto& [w, g, u, v] : all) optimizer.initialize(w, u, v);
    for (std::int64_t const done : {1000, 1399, 1400}) {
        optimizer.seek({.step = done});
        auto step = optimizer.next_step();
        std::vector<gs::sparse_message> messages;
        for (auto& [w, g, u, v] : all) {
            gs::sparse_message mine = step.compress(w, g, u, v);
            std::vector<std::byte> bytes = mine.encode();
            messages.push_back(gs::sparse_message::decode(bytes));
            right = right && mine.count() == (done == 1000 ? n / 4 : n / 1000);
        }
        for (auto& [w, g, u, v] : all) step.apply(w, messages);
        for (trainer const& each : all) right = right && each.w == all[0].w;
    }
    right = right && all[0].w != std::vector<float>(n, 1.0f);
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
