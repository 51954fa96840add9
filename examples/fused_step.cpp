// All that follows a backward pass, in two reads of the gradients: their norm, and one pass that
// clips, decays, updates, keeps an average, writes the weights in bfloat16 for the next forward
// pass, and sets the gradients to zero.
//
// The network is y = x.w in 64 dimensions, computed from the weights in bfloat16; gradients are
// added up in float.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <random>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

int main() {
    constexpr std::size_t n = 64, samples = 16;
    auto const true_weight = [](std::size_t i) { return 0.01f * static_cast<float>(i); };

    // [made]
    auto const optimizer = gs::make_updater<float>(gs::averaged{gs::adam{}, gs::ema{.decay = 0.99}},
                                                   gs::decoupled{1e-3}, gs::cosine{.rate = 0.02, .steps = 1000});
    std::vector<float> w(n), g(n), m(n), v(n), average(n);
    optimizer.initialize(w, m, v, average);

    // w starts at zero, so zeros are its correct copy; afterwards each step writes it.
    std::vector<gs::bfloat16> for_forward(n);
    gs::slice<decltype(optimizer)> weights = {w, g, m, v, average};
    weights.bfloat16_copy = for_forward;

    gs::model net{{.clip_norm = 1.0}};
    net.add("weights", optimizer, weights);
    // [made]

    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    double norm = 0;
    for (int t = 0; t < 1000; ++t) {
        for (std::size_t k = 0; k < samples; ++k) {
            std::vector<float> x(n);
            float residual = 0;
            for (std::size_t i = 0; i < n; ++i) {
                x[i] = normal(engine);
                residual += x[i] * (static_cast<float>(for_forward[i]) - true_weight(i));
            }
            for (std::size_t i = 0; i < n; ++i) g[i] += residual * x[i]; // adds to what the last step has cleared
        }
        // [step]
        auto const result = net.update({.gradient_scale = 1.0 / samples, .zero_gradient = true});
        // [step]
        norm = *result.norm;
        if (t % 200 == 0) std::printf("step %4d  norm of the gradients %.4f\n", t, norm);
    }
    float error = 0, apart = 0;
    for (std::size_t i = 0; i < n; ++i) {
        error = std::max(error, std::abs(average[i] - true_weight(i)));
        apart = std::max(apart, std::abs(static_cast<float>(for_forward[i]) - w[i]));
    }
    std::printf(
        "end        norm %.4f, the average is within %.4f of the weights sought, bfloat16 within %.4f of float\n", norm,
        static_cast<double>(error), static_cast<double>(apart));
    return error < 0.02f && apart < 0x1p-8f ? 0 : 1;
}
