// AdamW on one tensor: fits a line to points. The shortest program that trains.
#include <cmath>
#include <cstdio>
#include <vector>

// [quickstart]
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;
// [quickstart]

namespace {

// The gradient of the mean squared error of y = w[0] x + w[1] at points of the line y = 2 x - 1.
void backward(std::vector<float> const& w, std::vector<float>& gradient) {
    constexpr int points = 64;
    gradient.assign(2, 0);
    for (int i = 0; i < points; ++i) {
        float const x = static_cast<float>(i) / points, wrong = w[0] * x + w[1] - (2 * x - 1);
        gradient[0] += wrong * x / points;
        gradient[1] += wrong / points;
    }
}

} // namespace

int main() {
    constexpr std::size_t n = 2;
    // [quickstart]
    auto adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::cosine{.rate = 1e-3, .steps = 10'000});
    std::vector<float> w(n), gradient(n), m(n), v(n); // weights, gradient, and the two state buffers of Adam
    adamw.initialize(w, m, v);
    for (int t = 0; t < 10'000; ++t) {
        backward(w, gradient); // yours
        adamw.next_step()(w, gradient, m, v);
    }
    std::printf("slope %.2f, intercept %.2f\n", w[0], w[1]);
    // [quickstart]
    return std::abs(w[0] - 2) < 0.01f && std::abs(w[1] + 1) < 0.01f ? 0 : 1;
}
