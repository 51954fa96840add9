// gradstep inside a framework that has its memory already: tensors are spans of one arena, and all of them are updated
// in one call.
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

int main() {
    // One arena: all parameters, then all gradients, then the two moments of Adam.
    std::vector<std::size_t> const sizes = {784 * 256, 256, 256 * 10, 10};
    std::size_t const total = std::reduce(sizes.begin(), sizes.end());
    auto const arena = std::make_unique<float[]>(4 * total);
    auto const quarter = [&](std::size_t i) { return std::span<float>(arena.get() + i * total, total); };
    auto const w = quarter(0), g = quarter(1), m = quarter(2), v = quarter(3);

    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::cosine{.rate = 0.1, .steps = 200});

    std::vector<gs::slice<decltype(optimizer)>> model;
    std::size_t begin = 0;
    for (std::size_t const n : sizes) {
        model.push_back({w.subspan(begin, n), g.subspan(begin, n), m.subspan(begin, n), v.subspan(begin, n)});
        begin += n;
    }
    optimizer.initialize(w, m, v);

    // Minimises the sum of (w - 1)^2 / 2.
    for (int t = 0; t < 200; ++t) {
        for (std::size_t i = 0; i < total; ++i) g[i] = w[i] - 1;
        auto step = optimizer.next_step();
        step(model);
    }
    float furthest = 0;
    for (float const x : w) furthest = std::fmax(furthest, std::fabs(x - 1));
    std::printf("%zu tensors in one arena; the furthest weight is %.1e from the minimum\n", model.size(), furthest);
    return furthest < 1e-3f ? 0 : 1;
}
