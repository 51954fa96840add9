#include "plain_loops.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "network.hpp"

namespace {

constexpr float rate = 1e-3f, momentum = 0.9f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0.05f;

/// Step t of n elements. The state is m, or m and v, if the optimizer has it.
using loop = void(std::size_t n, float* w, float const* g, float* m, float* v, int t);

void sgd(std::size_t n, float* w, float const* g, float*, float*, int) {
    for (std::size_t i = 0; i < n; ++i) w[i] -= rate * g[i];
}
void momentum_sgd(std::size_t n, float* w, float const* g, float* m, float*, int) {
    for (std::size_t i = 0; i < n; ++i) {
        m[i] = momentum * m[i] + g[i];
        w[i] -= rate * m[i];
    }
}
void nesterov(std::size_t n, float* w, float const* g, float* m, float*, int) {
    for (std::size_t i = 0; i < n; ++i) {
        m[i] = momentum * m[i] + g[i];
        w[i] -= rate * (g[i] + momentum * m[i]);
    }
}
void adagrad(std::size_t n, float* w, float const* g, float*, float* v, int) {
    for (std::size_t i = 0; i < n; ++i) {
        v[i] += g[i] * g[i];
        w[i] -= rate * g[i] / (std::sqrt(v[i]) + epsilon);
    }
}
template <bool Decays> void adam(std::size_t n, float* w, float const* g, float* m, float* v, int t) {
    float const first = 1 - std::pow(beta1, static_cast<float>(t)), second = 1 - std::pow(beta2, static_cast<float>(t));
    for (std::size_t i = 0; i < n; ++i) {
        if (Decays) w[i] -= rate * decay * w[i];
        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
        w[i] -= rate * (m[i] / first) / (std::sqrt(v[i] / second) + epsilon);
    }
}

constexpr std::array<std::pair<std::string_view, loop*>, 6> loops{{{"sgd", sgd},
                                                                   {"momentum", momentum_sgd},
                                                                   {"nesterov", nesterov},
                                                                   {"adagrad", adagrad},
                                                                   {"adam", adam<false>},
                                                                   {"adamw", adam<true>}}};

class plain_learner final : public learner {
public:
    plain_learner(loop* by, network& net) : step_(by), net_(net) {
        net.each_tensor([&](char const*, auto const& value, auto const&) {
            state_.push_back({std::vector<float>(value.size()), std::vector<float>(value.size())});
        });
    }
    void step() override {
        ++t_;
        auto state = state_.begin();
        net_.each_tensor([&](char const*, auto& value, auto const& gradient) {
            step_(value.size(), value.data(), gradient.data(), (*state)[0].data(), (*state)[1].data(), t_);
            ++state;
        });
    }

private:
    loop* step_;
    network& net_;
    std::vector<std::array<std::vector<float>, 2>> state_;
    int t_ = 0;
};

} // namespace

std::unique_ptr<learner> plain_loop(std::string_view name, network& net) {
    for (auto const& [of, by] : loops)
        if (of == name) return std::make_unique<plain_learner>(by, net);
    return nullptr;
}
