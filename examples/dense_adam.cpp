// Dense training in a framework's own vectors: Adam with L2, under warm-up and cosine decay. Each
// step is prepared once and serves every tensor of the model.
//
// The model is y = x.w + bias in 16 dimensions, to be found again from samples of it.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

// [readme]
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;
// [readme]

int main() {
    constexpr std::size_t n = 16, samples = 32;
    constexpr float true_bias = 0.5f;
    auto const true_weight = [](std::size_t i) { return 0.1f * static_cast<float>(i); };

    // [readme]
    auto optimizer = gs::make_updater<float>(gs::adam{.beta2 = 0.98}, gs::l2{1e-6},
                                             gs::warmup{gs::cosine{.rate = 0.02, .steps = 2000}, 100});
    std::printf("%s\n", gs::describe(optimizer).c_str());

    std::vector<float> w(n), g(n), m(n), v(n);
    std::vector<float> bias(1), bias_grad(1), bias_m(1), bias_v(1);
    optimizer.initialize(w, m, v); // state slots to their initial values
    optimizer.initialize(bias, bias_m, bias_v);
    std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, m, v}, {bias, bias_grad, bias_m, bias_v}};
    model[1].decay = false; // L2 is for the weights
    // [readme]

    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    float error = 0;
    for (int t = 0; t < 2100; ++t) {
        g.assign(n, 0);
        bias_grad.assign(1, 0);
        error = 0;
        for (std::size_t k = 0; k < samples; ++k) {
            std::vector<float> x(n);
            float residual = bias[0] - true_bias;
            for (std::size_t i = 0; i < n; ++i) {
                x[i] = normal(engine);
                residual += x[i] * (w[i] - true_weight(i));
            }
            for (std::size_t i = 0; i < n; ++i) g[i] += residual * x[i];
            bias_grad[0] += residual;
            error += residual * residual / samples;
        }
        // [readme]
        auto step = optimizer.next_step({.gradient_scale = 1.0 / samples}); // the mean, folded into the same pass
        step(model);
        // [readme]
        if (t % 300 == 0) std::printf("step %4d  learning rate %.4f  mean squared error %.2e\n", t, step.rate(), error);
    }
    std::printf("end        mean squared error %.2e\n", error);
    return error < 1e-6f ? 0 : 1;
}
