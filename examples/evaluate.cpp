// AdamW on memory that your framework owns, by pointers: the program of docs/start/evaluate.md.
// [evaluate]
#include <gradstep/gradstep.hpp>

#include <cstdio>
#include <memory>
#include <span>

namespace gs = gradstep;

int main() {
    constexpr std::size_t n = 1000; // your framework's memory: weights, gradient, and two buffers of state
    auto const memory = std::make_unique<float[]>(4 * n);
    float *w = memory.get(), *gradient = w + n, *m = w + 2 * n, *v = w + 3 * n;
    for (std::size_t i = 0; i < n; ++i) w[i] = 1;

    auto adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{1e-3});
    adamw.initialize(std::span(w, n), std::span(m, n), std::span(v, n));
    for (int t = 0; t < 100; ++t) {
        for (std::size_t i = 0; i < n; ++i) gradient[i] = w[i]; // your backward pass
        adamw.next_step()(std::span(w, n), std::span(gradient, n), std::span(m, n), std::span(v, n));
    }
    std::printf("after %d steps w[0] is %.4f\n", static_cast<int>(adamw.clock().step), w[0]);
}
// [evaluate]
