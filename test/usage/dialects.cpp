// The eighth program of the public contract: another system's numbers.
#include <gradstep/dialects/keras.hpp>
#include <gradstep/dialects/torch.hpp>
#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace gs = gradstep;

// Where 20 steps of f(w) = w^2 / 2 lead from 1.
template <class Rule> double after_20_steps(Rule rule) {
    gs::parameter weight{gs::make_updater<double>(rule, gs::constant{0.01}), std::vector{1.0}};
    for (int k = 0; k < 20; ++k) weight.update(std::vector(weight.values().begin(), weight.values().end()));
    return weight.values()[0];
}

int main() {
    auto rule = gs::dialects::torch::rmsprop({.alpha = 0.99, .eps = 1e-8}); // that system's argument names and defaults
    auto torch = gs::dialects::torch::rmsprop_momentum(
        {.alpha = 0.99, .eps = 1e-8, .momentum = 0.9}); // lr outside the buffer, eps outside the root
    auto keras = gs::dialects::keras::rmsprop_momentum(
        {.rho = 0.9, .momentum = 0.9, .epsilon = 1e-7}); // lr inside the buffer, eps inside the root

    double const plain = after_20_steps(rule), of_torch = after_20_steps(torch), of_keras = after_20_steps(keras);
    std::printf("%.6f %.6f %.6f\n", plain, of_torch, of_keras);
    bool const all_move = plain < 1 && of_torch < 1 && of_keras < 1;
    bool const differ = std::abs(of_torch - of_keras) > 0.01 && std::abs(plain - of_torch) > 0.01;
    return all_move && differ ? 0 : 1;
}
