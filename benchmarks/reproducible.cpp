// Takes steps of AdamW on one tensor and writes the weights to the standard output, as bytes.
// reproducible.py compiles this file for each instruction set and takes the same steps in torch.
// Every gradient is a multiple of 2^-15 made by integers, so no rounding outside of the step counts.
//   reproducible ELEMENTS STEPS THREADS PARTS      PARTS slices of about the same size
#include <gradstep/backends/simd.hpp>
#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/schedules/constant.hpp>
#include <gradstep/updater.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace gs = gradstep;

namespace {

// A number of [-1, 1) that depends on the element and on the step.
float pattern(std::uint32_t element, std::uint32_t step) {
    std::uint32_t const mixed = (element * 2654435761u) ^ (step * 2246822519u);
    return (static_cast<float>(mixed >> 16) - 32768.0f) / 32768.0f;
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    std::size_t const n = std::strtoul(argv[1], nullptr, 10), parts = std::strtoul(argv[4], nullptr, 10);
    auto const steps = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
    gs::thread_pool pool(std::strtoul(argv[3], nullptr, 10));
    auto adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{1e-3}, gs::simd_backend{pool});
    std::vector<float> w(n), g(n), m(n), v(n);
    for (std::size_t i = 0; i < n; ++i) w[i] = pattern(static_cast<std::uint32_t>(i), 0);
    adamw.initialize(w, m, v);
    std::vector<gs::slice<decltype(adamw)>> slices;
    for (std::size_t k = 0; k < parts; ++k) {
        std::size_t const begin = k * n / parts, size = (k + 1) * n / parts - begin;
        auto const part = [&](std::vector<float>& x) { return std::span(x).subspan(begin, size); };
        slices.push_back({part(w), part(g), part(m), part(v)});
    }
    for (std::uint32_t t = 1; t <= steps; ++t) {
        for (std::size_t i = 0; i < n; ++i) g[i] = pattern(static_cast<std::uint32_t>(i), t);
        adamw.next_step()(slices);
    }
    return std::fwrite(w.data(), sizeof(float), n, stdout) == n ? 0 : 1;
}
