// xtensor containers are taken as they are, and the gradient may be a lazy expression: it is
// evaluated chunk by chunk inside the update, and no temporary of its size is made.
//
// Linear regression with 8 outputs of 32 inputs, by Adam on the mean squared error and a little
// weight decay.
#include <cstdio>

#include <gradstep/adapt/xtensor.hpp>
#include <gradstep/gradstep.hpp>

#if __has_include(<xtensor/containers/xtensor.hpp>) // from xtensor 0.26 on
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/generators/xrandom.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xmath.hpp>
#include <xtensor/xrandom.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

namespace gs = gradstep;

int main() {
    constexpr std::size_t outputs = 8, inputs = 32, samples = 64;
    using matrix = xt::xtensor<float, 2>;
    xt::random::seed(1);
    matrix const truth = xt::random::randn<float>({outputs, inputs});

    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::cosine{.rate = 0.05, .steps = 1000});
    matrix w = xt::zeros<float>({outputs, inputs}), m = w, v = w;
    optimizer.initialize(w, m, v);

    for (int t = 0; t < 1000; ++t) {
        matrix const x = xt::random::randn<float>({samples, inputs});
        auto const rows = xt::view(x, xt::all(), xt::newaxis(), xt::all());
        matrix const residual = xt::sum(rows * (w - truth), {2});
        matrix const sum = xt::sum(xt::view(residual, xt::all(), xt::all(), xt::newaxis()) * rows, {0});
        auto step = optimizer.next_step();
        step(w, sum * (1.0f / samples) + 1e-6f * w, m, v); // a gradient may read w at its own element
    }
    float const error = xt::amax(xt::abs(w - truth))();
    std::printf("the furthest of %zu weights is %.1e from the truth\n", w.size(), error);
    return error < 1e-3f ? 0 : 1;
}
