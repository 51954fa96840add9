// A framework that owns all memory: one arena holds parameters, gradients and optimizer state of a
// network. A model over it steps all of them at once, with a policy of its own for each group, and
// owns nothing but clocks.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// What the framework has.
struct arena {
    std::vector<float> memory = std::vector<float>(1 << 20);
    std::size_t used = 0;

    std::span<float> take(std::size_t n) {
        used += n;
        return std::span(memory).subspan(used - n, n);
    }
};
struct shape {
    char const* name;
    std::size_t size;
};
shape const shapes[]{{"embedding.weight", 4000 * 16},
                     {"encoder.weight", 16 * 64},
                     {"encoder.bias", 64},
                     {"head.weight", 64},
                     {"head.bias", 1}};
struct variable {
    std::string name;
    std::span<float> value, gradient;
};

int main() {
    arena memory;
    std::vector<variable> network;
    for (shape const& x : shapes) network.push_back({x.name, memory.take(x.size), memory.take(x.size)});

    // [add]
    auto const adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{0.05});
    auto const adagrad = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.5});

    gs::thread_pool pool;
    gs::model net{pool, {.clip_norm = 100.0}};
    for (variable const& x : network) {
        std::size_t const n = x.value.size();
        if (x.name.starts_with("embedding.")) {
            auto const sum = memory.take(n);
            adagrad.initialize(x.value, sum);
            net.add(x.name, adagrad, {x.value, x.gradient, sum});
        } else {
            auto const m = memory.take(n), v = memory.take(n);
            adamw.initialize(x.value, m, v);
            net.add(x.name, adamw, {x.value, x.gradient, m, v}, {.decay = x.name.ends_with(".weight")});
        }
    }
    // [add]
    std::printf("%s", net.description().c_str());

    for (int t = 0; t < 300; ++t) {
        for (variable const& x : network) // each is to reach the value 1; gradients add up, as in a framework
            for (std::size_t i = 0; i < x.value.size(); ++i) x.gradient[i] += x.value[i] - 1;
        // [update]
        net.update({.zero_gradient = true}); // reads the framework's gradients, and clears them in the same pass
        // [update]
    }

    bool right = net.clock("head.bias").step == 300;
    for (variable const& x : network) {
        std::printf("%-17s %.3f\n", x.name.c_str(), static_cast<double>(x.value.front()));
        right = right && std::fabs(x.value.back() - 1) < 0.03f && x.gradient.back() == 0;
    }
    return right ? 0 : 1;
}
