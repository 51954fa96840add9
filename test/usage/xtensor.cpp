// The fifth program of the public contract: xtensor's containers and a lazy gradient.
#include <gradstep/adapt/xtensor.hpp>
#include <gradstep/gradstep.hpp>

#include <cstdio>
#include <vector>

namespace gs = gradstep;

int main() {
    // What the program takes as given.
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.125});
    auto const step = optimizer.next_step();

    xt::xtensor<float, 2> w, m, v, residual;
    for (auto* x : {&w, &m, &v}) *x = xt::zeros<float>({7, 33});
    residual = xt::ones<float>({7, 33});
    step(w, residual * (1.0f / 32), m, v);

    // Made once: the assignments give g other memory.
    xt::xtensor<float, 2> g = xt::zeros<float>({7, 33});
    std::vector<gs::slice<decltype(optimizer)>> const model = {{w, g, m, v}};
    for (int t = 0; t < 3; ++t) {
        g = w - 1.0f;
        optimizer.next_step()(model);
    }

    bool const right = w(6, 32) > 0 && w(0, 0) == w(6, 32) && m(3, 3) < 0;
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
