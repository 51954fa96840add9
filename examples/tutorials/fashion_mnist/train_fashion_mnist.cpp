// The tutorial docs/start/tutorial_fashion_mnist.md: trains a network of two layers on
// Fashion-MNIST with AdamW.
//
//     train_fashion_mnist [STEPS [FOLDER]]

// [includes]
#include <cstdio>
#include <random>

#include <gradstep/gradstep.hpp>

#include "network.hpp"

namespace gs = gradstep;
// [includes]

// [start]
int main(int argc, char** argv) {
    std::int64_t const steps = argc > 1 ? std::stoll(argv[1]) : 4000;
    std::string const folder = argc > 2 ? argv[2] : "/usr/share/datasets/fashion-mnist";
    image_set const train(folder + "/train", 60'000), test(folder + "/t10k", 10'000);
    constexpr std::size_t batch = 64;
    // [start]

    // [optimizer]
    auto const adamw = gs::make_updater<float>(
        gs::adam{}, gs::decoupled{0.05}, gs::warmup{gs::cosine{.rate = 3e-3, .steps = steps - steps / 20}, steps / 20});
    // [optimizer]

    // [model]
    std::mt19937 engine(1);
    auto const random = [&](std::size_t inputs, std::size_t outputs) { // He et al. 2015, arXiv:1502.01852
        std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(inputs)));
        std::vector<float> values(inputs * outputs);
        for (float& x : values) x = normal(engine);
        return values;
    };
    gs::model net;
    net.add("hidden.weight", gs::parameter{adamw, random(pixels, hidden)});
    net.add("hidden.bias", gs::parameter{adamw, std::vector<float>(hidden)}, {.decay = false});
    net.add("output.weight", gs::parameter{adamw, random(hidden, classes)});
    net.add("output.bias", gs::parameter{adamw, std::vector<float>(classes)}, {.decay = false});

    auto const values = [&](char const* name) { return net.get<decltype(adamw)>(name).values(); };
    weights const w{values("hidden.weight"), values("hidden.bias"), values("output.weight"), values("output.bias")};
    // [model]

    // [loop]
    gradients sum;
    std::uniform_int_distribution<std::size_t> any(0, train.labels.size() - 1);
    double loss = 0;
    for (std::int64_t t = 1; t <= steps; ++t) {
        for (std::size_t n = 0; n < batch; ++n) {
            std::size_t const i = any(engine), label = train.labels[i];
            activations const a = forward(w, train.image(i));
            loss -= std::log(a.p[label]) / batch;
            backward(w, a, train.image(i), label, sum);
        }
        net.update(
            {{"hidden.weight", sum.w1}, {"hidden.bias", sum.b1}, {"output.weight", sum.w2}, {"output.bias", sum.b2}},
            {.gradient_scale = 1.0 / batch, .zero_gradient = true});

        if (std::int64_t const every = std::max<std::int64_t>(1, steps / 10); t % every == 0) {
            std::printf("step %4lld   loss %.3f   test accuracy %.2f %%\n", static_cast<long long>(t),
                        loss / static_cast<double>(every), 100 * accuracy(w, test));
            loss = 0;
        }
    }
    // [loop]

    // [end]
    // The test of this program: a network that does not learn stays below 80 %.
    return accuracy(w, test) > 0.8 ? 0 : 1;
}
// [end]
