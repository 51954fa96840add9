// A model whose parameters are treated in groups: weights decay while biases and norms do not, the
// pretrained part learns slowly, the embedding has a rule of its own. Gradients are clipped by the
// norm of all of them, a step with a NaN is left out, and one pass on all threads updates
// everything.
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// What the framework has: tensors with names and gradients. Each is to reach the value 1.
struct tensor {
    std::string name;
    std::vector<float> initial, gradient;

    tensor(char const* of, std::size_t n, float value) : name(of), initial(n, value), gradient(n) {}
};

int main() {
    std::vector<tensor> tensors{{"embedding.weight", 30'000 * 16, 0}, {"encoder.weight", 512 * 256, 0.5f},
                                {"encoder.bias", 512, 0.5f},          {"norm.scale", 512, 0},
                                {"head.weight", 512 * 10, 0},         {"head.bias", 10, 0}};
    constexpr int steps = 200, broken_step = 100;

    // [groups]
    auto const adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.5}, gs::constant{0.02});
    auto const adagrad = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1});

    gs::thread_pool pool;
    gs::model net{pool, {.clip_norm = 1.0, .on_nonfinite = gs::nonfinite::skip}};
    for (tensor const& x : tensors) {
        bool const is_weight = x.name.ends_with(".weight"), is_pretrained = x.name.starts_with("encoder.");
        if (x.name.starts_with("embedding.")) net.add(x.name, gs::parameter{adagrad, x.initial});
        else
            net.add(x.name, gs::parameter{adamw, x.initial},
                    {.rate_scale = is_pretrained ? 0.05 : 1, .decay = is_weight});
    }
    // [groups]
    std::printf("%s", net.description().c_str());

    auto const values = [&](std::string const& name) {
        if (name.starts_with("embedding.")) return net.get<decltype(adagrad)>(name).values();
        return net.get<decltype(adamw)>(name).values();
    };
    int left_out = 0;
    for (int t = 0; t < steps; ++t) {
        for (tensor& x : tensors) {
            auto const w = values(x.name);
            for (std::size_t i = 0; i < w.size(); ++i) x.gradient[i] = w[i] - 1;
        }
        if (t == broken_step) tensors[1].gradient[77] = std::numeric_limits<float>::quiet_NaN();

        // [update]
        std::vector<gs::named_gradient> gradients;
        for (tensor const& x : tensors) gradients.push_back({x.name, x.gradient});

        gs::model_result const result = net.update(gradients);
        if (!result.applied) { // weights, state and clocks are as they were
            auto const& [name, element] = *result.nonfinite;
            std::printf("step %d is left out: the gradient of %s is not finite at %zu\n", t, name.c_str(), element);
            ++left_out;
        }
        // [update]
    }

    for (tensor const& x : tensors) std::printf("%-17s %.3f\n", x.name.c_str(), static_cast<double>(values(x.name)[0]));
    bool const right = left_out == 1 && std::fabs(values("head.bias")[0] - 1) < 0.01f &&
                       std::fabs(values("norm.scale")[0] - 1) < 0.01f && values("head.weight")[0] < 0.99f &&
                       values("encoder.bias")[0] < 0.8f;
    return right ? 0 : 1;
}
