// Reads an optimizer from a configuration, in JSON, and trains a line through points with it: the
// rules that a program wants to have are compiled, all numbers, regularizers and schedules are the
// file's.
//
//     optimizer_from_a_file [configuration.json]
#include <cmath>
#include <cstdio>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include <gradstep/config.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

namespace {

// [configuration]
char const* const built_in = R"({
    "rule": {"name": "adam", "beta2": 0.98},
    "regularizer": {"name": "decoupled", "rate": 1e-4},
    "schedule": {"name": "warmup", "steps": 20, "after": {"name": "cosine", "rate": 0.1, "steps": 400}}
})";
// [configuration]

// Half the mean squared error for the line y = 2 x - 1, and its gradient.
double loss_of(std::span<float const> w, std::vector<float>& g) {
    constexpr int points = 64;
    double loss = 0;
    g.assign(2, 0);
    for (int i = 0; i < points; ++i) {
        float const x = static_cast<float>(i) / points, error = w[0] * x + w[1] - (2 * x - 1);
        g[0] += error * x / points;
        g[1] += error / points;
        loss += static_cast<double>(error * error) / (2 * points);
    }
    return loss;
}

// [train]
// Trains with the rule of the configuration if that is one of those given; whether it is.
template <class... Rules> bool train(gs::configuration const& read) {
    return std::visit(
        [&]<class Rule>(Rule const& rule) {
            if constexpr ((std::is_same_v<Rule, Rules> || ...)) { // the others are not compiled
                auto const optimizer = gs::make_updater<float>(rule, read.regularizer, read.schedule);
                gs::parameter line{optimizer, std::vector<float>(2)};
                std::vector<float> g;
                for (int t = 0; t <= 400; ++t) {
                    double const loss = loss_of(line.values(), g);
                    if (t % 100 == 0) std::printf("step %3d  loss %.6f\n", t, loss);
                    line.update(g);
                }
                return true;
            } else {
                return false;
            }
        },
        read.rule);
}
// [train]

} // namespace

int main(int argc, char** argv) {
    try {
        // [read]
        gs::configuration const read =
            argc > 1 ? gs::read_configuration_file(argv[1]) : gs::read_configuration(built_in);
        std::printf("%s\n", gs::to_json(read, 2).c_str()); // with every hyperparameter, also the defaults
        if (!train<gs::adam, gs::momentum, gs::ftrl>(read))
            throw gs::value_error("rule.name: this program has adam, momentum and ftrl");
        // [read]
    } catch (gs::error const& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what()); // "rule.beta1: 1.5 is out of range; expected [0, 1)"
        return 1;
    }
}
