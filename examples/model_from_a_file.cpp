// A model whose optimizers are chosen by a file, one for each parameter: it trains, saves, and goes
// on from what it saved.
//
//     model_from_a_file [optimizers.json]
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/model.hpp>
#include <gradstep/runtime.hpp>

namespace gs = gradstep;

namespace {

// [text]
char const* const built_in = R"({
    "slope": {"rule": {"name": "adam"}, "schedule": {"name": "cosine", "rate": 0.1, "steps": 400}},
    "offset": {"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.05}}
})";
// [text]

// Writes the gradients of half the mean squared error for the line y = 2 x - 1, and returns that
// loss.
float loss_of(float slope, float offset, std::vector<float>& g_slope, std::vector<float>& g_offset) {
    constexpr int points = 64;
    float loss = 0;
    g_slope = g_offset = {0};
    for (int i = 0; i < points; ++i) {
        float const x = static_cast<float>(i) / points, error = slope * x + offset - (2 * x - 1);
        g_slope[0] += error * x / points;
        g_offset[0] += error / points;
        loss += error * error / (2 * points);
    }
    return loss;
}

} // namespace

int main(int argc, char** argv) {
    try {
        // [model]
        auto const optimizers = argc > 1 ? gs::read_optimizers_file(argv[1]) : gs::read_optimizers(built_in);
        auto const make = [&] {
            gs::model net;
            for (auto const& [name, optimizer] : optimizers)
                net.add(name, gs::any_parameter{optimizer, std::vector<float>(1)});
            return net;
        };
        auto const train = [](gs::model& net, int steps) {
            auto const& slope = net.get<gs::any_updater>("slope");
            auto const& offset = net.get<gs::any_updater>("offset");
            std::vector<float> g_slope, g_offset;
            float loss = 0;
            for (int t = 0; t < steps; ++t) {
                loss = loss_of(slope.values().as<float>()[0], offset.values().as<float>()[0], g_slope, g_offset);
                net.update({{"slope", g_slope}, {"offset", g_offset}});
            }
            return loss;
        };
        gs::model net = make();
        train(net, 200);
        net.save("line.safetensors");

        gs::model resumed = make();
        resumed.load("line.safetensors");
        bool const same = train(net, 200) == train(resumed, 200); // bit for bit
        // [model]
        std::printf("%sloss %.6f, after it was resumed %s\n", resumed.description().c_str(), train(resumed, 1),
                    same ? "the same" : "another one");
        std::remove("line.safetensors");
        return same && train(resumed, 1) < 1e-4f ? 0 : 1;
    } catch (gs::error const& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what());
        return 1;
    }
}
