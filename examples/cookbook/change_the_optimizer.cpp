// Changing the optimizer in the middle of a run: Adam first, then momentum SGD on the same weights;
// a learning rate and a decay that change without losing the state; a warm restart.
//
// The problem is a badly conditioned quadratic.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

namespace {

constexpr std::size_t n = 16;
void backward(std::vector<float> const& w, std::vector<float>& g) {
    for (std::size_t i = 0; i < n; ++i) g[i] = (w[i] - 1) / static_cast<float>(i + 1);
}
float error_of(std::vector<float> const& w) {
    float worst = 0;
    for (float const x : w) worst = std::max(worst, std::fabs(x - 1));
    return worst;
}

} // namespace

int main() {
    std::vector<float> w(n), g(n);
    // [rule]
    auto adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.01});
    std::vector<float> m(n), v(n);
    adam.initialize(w, m, v);
    for (int t = 0; t < 300; ++t) {
        backward(w, g);
        adam.next_step()(w, g, m, v);
    }

    auto sgd = gs::make_updater<float>(gs::momentum{.mu = 0.9}, gs::warmup{gs::constant{0.2}, 20});
    std::vector<float> velocity(n); // momentum's own state: Adam's m is a mean, momentum's m a sum
    sgd.initialize(w, velocity);
    for (int t = 0; t < 300; ++t) {
        backward(w, g);
        sgd.next_step()(w, g, velocity);
    }
    // [rule]
    float const after_sgd = error_of(w);
    std::printf("after Adam and SGD: within %.2e\n", static_cast<double>(after_sgd));

    // [numbers]
    gs::parameter weights{gs::make_updater<float>(gs::adam{}, gs::l2{1e-2}, gs::constant{0.05}), w};
    for (int t = 0; t < 100; ++t) {
        backward(w, g);
        weights.update(g);
        w.assign(weights.values().begin(), weights.values().end());
    }

    // The same types with other numbers, at the same step: values and state stay.
    auto changed = gs::make_updater<float>(gs::adam{.beta2 = 0.99}, gs::l2{0}, gs::constant{0.02});
    changed.seek(weights.clock());
    weights.optimizer() = changed;
    // [numbers]
    for (int t = 0; t < 300; ++t) {
        backward(w, g);
        weights.update(g);
        w.assign(weights.values().begin(), weights.values().end());
    }
    float const after_change = error_of(w);
    std::printf("after a change of numbers, step %d: within %.2e\n", static_cast<int>(weights.clock().step),
                static_cast<double>(after_change));

    // [restart]
    gs::cosine const cycle{.rate = 0.05, .steps = 100};
    std::int64_t const restart = weights.clock().step; // restart whenever your program decides to
    for (int t = 0; t < 100; ++t) {
        backward(w, g);
        weights.update(g, {.rate = cycle(gs::clock{.step = weights.clock().step - restart})});
        w.assign(weights.values().begin(), weights.values().end());
    }
    // [restart]
    std::printf("after a warm restart, step %d: within %.2e\n", static_cast<int>(weights.clock().step),
                static_cast<double>(error_of(w)));
    return after_sgd < 0.01f && after_change < 0.01f && error_of(w) < 0.01f ? 0 : 1;
}
