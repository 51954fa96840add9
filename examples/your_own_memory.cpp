// gradstep inside a framework that has its memory already: tensors are spans of one arena, and all
// of them are updated in one call.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/memory/huge_pages.hpp>

namespace gs = gradstep;

int main() {
    std::vector<std::size_t> const sizes = {784 * 256, 256, 256 * 10, 10};
    std::size_t const total = std::reduce(sizes.begin(), sizes.end());

    // One arena: all parameters, then all gradients, then the two moments of Adam.
    // [arena]
    // Whole KiB from one buffer to the next, and 5 KiB more: no two buffers are a power of two
    // apart.
    constexpr std::size_t KiB = 1024 / sizeof(float);
    std::size_t const distance = (total + KiB - 1) / KiB * KiB + 5 * KiB;
    std::vector<float, gs::huge_page_allocator<float>> arena(4 * distance); // zeros
    auto const buffer = [&](std::size_t i) { return std::span(arena).subspan(i * distance, total); };
    auto const w = buffer(0), g = buffer(1), m = buffer(2), v = buffer(3);
    // [arena]

    // [slices]
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::cosine{.rate = 0.1, .steps = 200});

    std::vector<gs::slice<decltype(optimizer)>> model;
    std::size_t begin = 0;
    for (std::size_t const n : sizes) {
        model.push_back({w.subspan(begin, n), g.subspan(begin, n), m.subspan(begin, n), v.subspan(begin, n)});
        begin += n;
    }
    optimizer.initialize(model);
    // [slices]

    // Minimises the sum of (w - 1)^2 / 2.
    for (int t = 0; t < 200; ++t) {
        for (std::size_t i = 0; i < total; ++i) g[i] = w[i] - 1;
        // [step]
        auto step = optimizer.next_step();
        step(model);
        // [step]
    }
    float furthest = 0;
    for (float const x : w) furthest = std::fmax(furthest, std::fabs(x - 1));
    std::printf("%zu tensors in one arena; the furthest weight is %.1e from the minimum\n", model.size(), furthest);
    return furthest < 1e-3f ? 0 : 1;
}
