// A complete mixed-precision loop with dynamic loss scaling: float16 weights and gradients, a
// master copy of the weights in float, steps that are skipped if a gradient overflows.
//
// The model is y = x.w in 64 dimensions. Its gradients become so small that float16 loses them
// without loss scaling.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

namespace {

constexpr std::size_t n = 64, samples = 16;
float true_weight(std::size_t i) { return 0.001f * static_cast<float>(i); }

// The gradient of loss_scale * loss, in float16 as a network in float16 computes it: products too
// large become infinite.
void backward(std::mt19937& engine, std::span<gs::float16 const> w, float loss_scale, std::span<gs::float16> g) {
    std::normal_distribution<float> normal;
    std::vector<float> sum(n);
    for (std::size_t k = 0; k < samples; ++k) {
        std::vector<float> x(n);
        float residual = 0;
        for (std::size_t i = 0; i < n; ++i) {
            x[i] = normal(engine);
            residual += x[i] * (static_cast<float>(w[i]) - true_weight(i));
        }
        float const scaled = static_cast<float>(gs::float16(loss_scale * 1e-3f * residual / samples));
        for (std::size_t i = 0; i < n; ++i) sum[i] += scaled * x[i];
    }
    for (std::size_t i = 0; i < n; ++i) g[i] = gs::float16(sum[i]);
}

// [scaler]
// Dynamic loss scaling: halves the scale after an overflow, and doubles it after 200 good steps.
struct loss_scaler {
    double scale = 0x1p30;
    int good_steps = 0;

    void after_step(bool applied) {
        if (!applied) {
            scale = std::max(1.0, scale / 2);
            good_steps = 0;
        } else if (++good_steps == 200) {
            scale *= 2;
            good_steps = 0;
        }
    }
};
// [scaler]

} // namespace

int main() {
    // [made]
    auto const optimizer = gs::make_updater<gs::mixed<gs::float16>>(gs::adam{}, gs::decoupled{1e-4},
                                                                    gs::cosine{.rate = 0.01, .steps = 1000});
    std::vector<gs::float16> w(n), g(n);      // read and written by your network
    std::vector<float> m(n), v(n), master(n); // the state: Adam's slots, and the master copy last
    optimizer.initialize(w, m, v, master);    // master starts with the values of w

    gs::model net{{.clip_norm = 1.0, .on_nonfinite = gs::nonfinite::skip}};
    net.add("weight", optimizer, {w, g, m, v, master});
    // [made]

    std::mt19937 engine(1);
    int skipped = 0;
    // [loop]
    loss_scaler scaler;
    while (net.clock("weight").step < 1000) {
        backward(engine, w, static_cast<float>(scaler.scale), g); // the gradient of scale * loss
        gs::model_result const result = net.update({.gradient_scale = 1 / scaler.scale, .zero_gradient = true});
        scaler.after_step(result.applied);
        if (!result.applied) ++skipped; // weights, state and clock are as they were
    }
    // [loop]

    float error = 0, apart = 0;
    for (std::size_t i = 0; i < n; ++i) {
        error = std::max(error, std::fabs(master[i] - true_weight(i)));
        apart = std::max(apart, std::fabs(static_cast<float>(w[i]) - master[i]));
    }
    std::printf("1000 steps, %d skipped; the loss scale is 2^%d\n", skipped, std::ilogb(scaler.scale));
    std::printf("master copy within %.5f of the weights sought, float16 within %.5f of the master copy\n",
                static_cast<double>(error), static_cast<double>(apart));
    return skipped > 0 && error < 0.002f && apart < 0x1p-12f ? 0 : 1;
}
