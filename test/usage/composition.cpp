// The ninth program of the public contract: composition without another pass over memory.
#include <gradstep/gradstep.hpp>

#include <cstdio>
#include <vector>

namespace gs = gradstep;

namespace {

// A window that closes in the tests' steps, besides the one of the contract.
bool averages_take_the_weights_place(gs::window const& policy) {
    std::vector<float> const initial(1003, 1.0f), gradient(1003, 0.5f);
    float evaluated = 0;
    auto const evaluate = [&](auto values) { evaluated = values[1002]; };

    gs::parameter weights{gs::make_updater<float>(gs::averaged{gs::momentum{}, policy}, gs::constant{0.1}), initial};
    weights.update(gradient);
    weights.update(gradient);
    {
        auto const average = weights.apply_average();
        evaluate(weights.values());
    }
    std::vector<float> averages = weights.average();

    // 1 - 0.05, then 0.95 - 0.1 * (0.9 * 0.5 + 0.5)
    bool const trained = weights.values()[0] > 0.8549f && weights.values()[0] < 0.8551f;
    return trained && evaluated == averages[1002] && averages[0] > 0.9024f && averages[0] < 0.9026f;
}

} // namespace

int main() {
    // What the program takes as given.
    std::size_t const n = 1003;
    gs::simd_backend<> const backend;
    std::vector<gs::bfloat16> w(n, gs::bfloat16(1.0f)), g(n, gs::bfloat16(0.5f));
    std::vector<std::vector<gs::bfloat16>> const gradients{g, g};
    std::vector<float> m(n), v(n), average(n), master(n);

    auto optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::averaged{gs::adam{}, gs::ema{0.999}},
                                                               gs::all_of{gs::clip_value{1.0}, gs::decoupled{0.01}},
                                                               gs::constant{1e-3});
    double norm = gs::global_norm(backend, gradients);
    auto step = optimizer.next_step({.gradient_scale = gs::clip_scale(norm, 1.0)});

    optimizer.initialize(w, m, v, average, master);
    step(w, g, m, v, average, master);

    bool const right = norm > 22 && norm < 23 && master[n - 1] < 1 && master[n - 1] > 0.998f &&
                       average[0] > master[0] && average[0] < 1 && m[0] > 0 && m[0] < 0.1f * 0.5f &&
                       averages_take_the_weights_place(gs::window{.rate = 0.15, .min = 10'000, .max = 20'000}) &&
                       averages_take_the_weights_place(gs::window{.rate = 1, .min = 2, .max = 2});
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
