// The first program of the public contract: an optimizer over a framework's own memory.
#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace gs = gradstep;

int main() {
    // What the program takes as given.
    std::size_t const n = 1003;
    double const loss_scale = 1024, host_rate = 0.25;
    std::vector<float> bias(17), bias_grad(17, 1), bias_m(17), bias_v(17);

    auto optimizer = gs::make_updater<float>(gs::adam{.beta2 = 0.98}, gs::l2{1e-4},
                                             gs::warmup{gs::cosine{.rate = 1e-3, .steps = 10'000}, 500});

    std::vector<float> w(n), g(n), m(n), v(n);
    optimizer.initialize(w, m, v);
    auto step = optimizer.next_step();
    step(w, g, m, v);
    step(bias, bias_grad, bias_m, bias_v);

    std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, m, v}, {bias, bias_grad, bias_m, bias_v}};
    model[1].decay = false;
    model[0].rate_scale = 0.1;
    model[0].id = 7;
    step(model);

    step = optimizer.next_step(
        {.gradient_scale = 1.0 / loss_scale, .rate_scale = 0.5, .samples = 128, .zero_gradient = true});
    step(model);
    step = optimizer.next_step({.rate = host_rate});
    step(model);
    gs::clock const at = optimizer.clock();
    optimizer.seek(at);

    auto external = gs::make_updater<float>(gs::adam{}, gs::external{});
    external.next_step({.rate = host_rate})(w, g, m, v);

    bool const right = at == gs::clock{.step = 3, .samples = 128} && bias_grad[16] == 0 && bias[0] < 0 && w[n - 1] == 0;
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
