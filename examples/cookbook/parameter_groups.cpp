// Parameter groups over slices: no weight decay for biases and norms, a learning rate for each
// layer, and a layer that is frozen at first.
//
// The "network" is a list of tensors that all want to reach 1.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

namespace {

struct layer_tensor {
    std::string name;
    int layer;
    std::vector<float> w, g, m, v;

    layer_tensor(char const* of, int number, std::size_t n) : name(of), layer(number), w(n), g(n), m(n), v(n) {}
};

} // namespace

int main() {
    constexpr int layers = 3, steps = 600, frozen_steps = 300;
    std::vector<layer_tensor> network{{"embed.weight", 0, 64}, {"encoder.weight", 1, 256}, {"encoder.bias", 1, 16},
                                      {"norm.scale", 1, 16},   {"head.weight", 2, 32},     {"head.bias", 2, 2}};

    // [groups]
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.1}, gs::constant{0.01});
    using tensor = gs::slice<decltype(optimizer)>;

    std::vector<tensor> trained, frozen;
    for (auto& x : network) {
        tensor slice{x.w, x.g, x.m, x.v};
        slice.decay = x.name.ends_with(".weight");              // no decay for biases and norms
        slice.rate_scale = std::pow(0.8, layers - 1 - x.layer); // layer-wise rates: 1, 0.8, 0.64
        (x.layer == 0 ? frozen : trained).push_back(slice);     // freeze the embedding
        optimizer.initialize(slice);
    }
    // [groups]

    bool stayed = true;
    for (int t = 0; t < steps; ++t) {
        for (auto& x : network)
            for (std::size_t i = 0; i < x.w.size(); ++i) x.g[i] = x.w[i] - 1;
        // [unfreeze]
        auto const step = optimizer.next_step();
        step(trained);
        if (t >= frozen_steps) {
            for (tensor& x : frozen) x.step = step.number() - frozen_steps; // Adam's bias correction starts at 1
            step(frozen);
        }
        // [unfreeze]
        if (t + 1 == frozen_steps) stayed = network[0].w[0] == 0;
    }

    for (auto const& x : network) std::printf("%-15s %.4f\n", x.name.c_str(), static_cast<double>(x.w[0]));
    bool const right = stayed && network[5].w[0] > 0.99f && network[4].w[0] < 0.99f && network[0].w[0] > 0.5f;
    return right ? 0 : 1;
}
