// Gradient accumulation: several small batches (micro-batches) are added up in one gradient before
// each step. The run gives the weights of a run with large batches, with the memory of small ones.
//
// The model is y = x.w in 32 dimensions.
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

constexpr std::size_t n = 32, samples = 1024;

struct data_set {
    std::vector<float> x = std::vector<float>(samples * n), y = std::vector<float>(samples);
    data_set() {
        std::mt19937 engine(1);
        std::normal_distribution<float> normal;
        for (std::size_t k = 0; k < samples; ++k)
            for (std::size_t i = 0; i < n; ++i) {
                x[k * n + i] = normal(engine);
                y[k] += x[k * n + i] * 0.1f * static_cast<float>(i);
            }
    }
};
data_set const data;

// Adds the gradients of samples [first, first + count) to g.
void backward(std::span<float const> w, std::size_t first, std::size_t count, std::span<float> g) {
    for (std::size_t k = first; k < first + count; ++k) {
        float const* const x = &data.x[k * n];
        float residual = -data.y[k];
        for (std::size_t i = 0; i < n; ++i) residual += w[i] * x[i];
        for (std::size_t i = 0; i < n; ++i) g[i] += residual * x[i];
    }
}

std::vector<float> train(std::size_t micro_batches, std::size_t micro_batch_size) {
    std::size_t const batch_size = micro_batches * micro_batch_size;
    std::size_t next = 0;
    auto const next_samples = [&](std::size_t count) {
        std::size_t const first = next;
        next = (next + count) % samples;
        return first;
    };
    // [loop]
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{1e-4}, gs::cosine{.rate = 0.05, .steps = 400});
    std::vector<float> w(n), g(n), m(n), v(n); // g starts at zero
    optimizer.initialize(w, m, v);

    for (int step = 0; step < 400; ++step) {
        for (std::size_t k = 0; k < micro_batches; ++k)
            backward(w, next_samples(micro_batch_size), micro_batch_size, g); // adds to g
        double const scale = 1.0 / static_cast<double>(batch_size);           // from the sum to the mean
        optimizer.next_step({.gradient_scale = scale, .zero_gradient = true})(w, g, m, v);
    }
    // [loop]
    return w;
}

} // namespace

int main() {
    std::vector<float> const accumulated = train(8, 16), at_once = train(1, 128);
    float apart = 0, error = 0;
    for (std::size_t i = 0; i < n; ++i) {
        apart = std::max(apart, std::fabs(accumulated[i] - at_once[i]));
        error = std::max(error, std::fabs(accumulated[i] - 0.1f * static_cast<float>(i)));
    }
    std::printf("8 micro-batches of 16 and 1 batch of 128: the weights differ by at most %g\n",
                static_cast<double>(apart));
    std::printf("distance from the weights sought: at most %.4f\n", static_cast<double>(error));
    return apart == 0 && error < 0.01f ? 0 : 1;
}
