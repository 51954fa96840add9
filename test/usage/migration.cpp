// The C++ of the pages docs/how_to/migrate_from_*.md: an optimizer of each framework with its decay
// and schedule.
#include <gradstep/dialects.hpp>
#include <gradstep/gradstep.hpp>

#include <cstdio>
#include <vector>

namespace gs = gradstep;

// Whether 500 steps of f(w) = |w|^2 / 2 lead towards the minimum.
template <class Parameter> bool learns(char const* name, Parameter& weights) {
    float const before = weights.values()[0];
    for (int t = 0; t < 500; ++t) weights.update(std::vector<float>(weights.values().begin(), weights.values().end()));
    std::printf("%s: from %g to %g\n", name, double(before), double(weights.values()[0]));
    return weights.values()[0] < before;
}

bool of_torch(std::vector<float> const& start) {
    // [torch]
    auto const adamw = gs::make_updater<float>(gs::dialects::torch::adamw({.beta2 = 0.98}), gs::decoupled{0.01},
                                               gs::cosine{.rate = 1e-3, .steps = 1000});
    gs::parameter weights{adamw, start}; // copies the initial values
    // [torch]
    return learns("torch", weights);
}

bool of_keras(std::vector<float> const& start) {
    // [keras]
    auto const adamw = gs::make_updater<float>(gs::dialects::keras::adamw({.beta_2 = 0.98}), gs::decoupled{0.01},
                                               gs::cosine{.rate = 1e-3, .steps = 1000});
    gs::parameter weights{adamw, start}; // copies the initial values
    // [keras]
    return learns("keras", weights);
}

bool of_optax(std::vector<float> const& start) {
    // [optax]
    auto const adamw = gs::make_updater<float>(gs::dialects::optax::adamw({.b2 = 0.98}), gs::decoupled{0.01},
                                               gs::cosine{.rate = 1e-3, .steps = 1000});
    gs::parameter weights{adamw, start}; // copies the initial values
    // [optax]
    return learns("optax", weights);
}

bool of_tensorflow(std::vector<float> const& start) {
    // [tensorflow]
    auto const ftrl = gs::make_updater<float>(
        gs::dialects::tensorflow::ftrl({.l1_regularization_strength = 0.01, .l2_regularization_strength = 0.001}),
        gs::constant{0.05});
    gs::parameter weights{ftrl, start}; // copies the initial values
    // [tensorflow]
    return learns("tensorflow", weights);
}

bool of_paddle(std::vector<float> const& start) {
    // [paddle]
    auto const adamw = gs::make_updater<float>(gs::dialects::paddle::adamw({.beta2 = 0.98}), gs::decoupled{0.01},
                                               gs::cosine{.rate = 1e-3, .steps = 1000});
    gs::parameter weights{adamw, start}; // copies the initial values
    // [paddle]
    return learns("paddle", weights);
}

int main() {
    std::vector<float> const start(64, 1.0f);
    bool const all = of_torch(start) && of_keras(start) && of_optax(start) && of_tensorflow(start) && of_paddle(start);
    return all ? 0 : 1;
}
