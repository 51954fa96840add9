// Trains the demo's network at a rate that stays high, so that the weights walk around the minimum
// to the end, and judges by the test set the last weights and three averages of them, all kept in
// one training.

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "../common/program.hpp"
#include "learner_of_model.hpp"
#include "training.hpp"

namespace {

struct options {
    std::string data = "/usr/share/datasets/fashion-mnist";
    std::size_t epochs = 12;
    std::uint64_t seeds = 3;
    double rate = 0.05;
};

// [averages]
// Three averages of one training, nested: `average` and `apply_average` read the outermost, the
// window. The others are slots.
auto averaging(double rate, std::int64_t steps) {
    return gs::make_updater<float>(
        gs::averaged{gs::averaged{gs::averaged{gs::momentum{}, gs::ema{0.998}}, gs::polyak{.start = steps / 2}},
                     gs::window{.rate = 0.5, .min = 500, .max = 2000}},
        gs::constant{rate});
}
// [averages]
constexpr std::array judged{"last weights", "ema", "polyak", "window"};
using accuracies = std::array<double, judged.size()>; // in %

/// The network's tensors as a model over them, which after an epoch is judged with each average in
/// their place.
class learner_with_averages : public learner_of_model {
    using optimizer = decltype(averaging(0, 0)); // its slots: m, average, average2, sum_1, sum_2, sum_3

public:
    learner_with_averages(optimizer const& by, network& net, image_set const& test, accuracies& out)
        : learner_of_model(net), test_(test), out_(out) {
        add(by, {"*"});
    }
    void end_of_epoch() override {
        out_[0] = accuracy();
        for (std::size_t const slot : {1u, 2u}) {
            swap_with(slot);
            out_[slot] = accuracy();
            swap_with(slot);
        }
        // [apply]
        auto const applied = model_.apply_average(); // until the end of the scope
        out_[3] = accuracy();
        // [apply]
    }

private:
    void swap_with(std::size_t slot) {
        net_.each_tensor([&](char const*, auto& value, auto&) {
            std::ranges::swap_ranges(std::span(value.data(), value.size()), state_[slot]);
            slot += optimizer::slots; // the same slot of the next tensor
        });
    }
    double accuracy() { return 100 * ::evaluate(net_, test_).accuracy; }

    image_set const& test_;
    accuracies& out_;
};

int run(options const& chosen) {
    interrupt::listen();
    data_set const data = read_mnist(std::filesystem::weakly_canonical(chosen.data));
    std::vector<accuracies> of_seed(chosen.seeds);
    progress bar(chosen.seeds * task{data, 128, 128, chosen.epochs, 1}.steps());
    for (std::size_t k = 0; k < of_seed.size(); ++k) {
        task const work{data, 128, 128, chosen.epochs, k + 1};
        auto const make = [&](std::span<network> nets, std::int64_t steps) {
            return std::make_unique<learner_with_averages>(averaging(chosen.rate, steps), nets.front(), data.test,
                                                           of_seed[k]);
        };
        auto const outcome = train("seed " + std::to_string(k + 1), make, work, bar);
        bar.clear();
        if (!outcome) return exit_code::interrupted;
    }

    std::printf("\ntest accuracy, %% ");
    for (std::size_t k = 0; k < of_seed.size(); ++k) std::printf("  seed %zu", k + 1);
    std::puts("    mean");
    accuracies mean{};
    for (std::size_t i = 0; i < judged.size(); ++i) {
        std::printf("%-17s", judged[i]);
        for (accuracies const& each : of_seed) {
            std::printf(" %7.2f", each[i]);
            mean[i] += each[i] / static_cast<double>(of_seed.size());
        }
        std::printf(" %7.2f\n", mean[i]);
    }
    if (mean[3] > mean[0] - 1) return 0;
    std::fprintf(stderr,
                 "The average over windows is worse than the last weights by more than 1 %%: something is wrong.\n");
    return exit_code::failed;
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Judges the last weights of a training, and averages of them.");
    app.option_defaults()->always_capture_default();
    app.add_option("--data", chosen.data, "folder with the four files of a data set in MNIST's format");
    app.add_option("--epochs", chosen.epochs, "passes over the data")->check(CLI::Range(1, 1000));
    app.add_option("--seeds", chosen.seeds, "trainings")->check(CLI::Range(1, 100));
    app.add_option("--rate", chosen.rate, "the learning rate")->check(CLI::PositiveNumber);
    CLI11_PARSE(app, argc, argv);
    return guarded([&] { return run(chosen); });
}
