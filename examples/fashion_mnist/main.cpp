// Trains a two-layer network on Fashion-MNIST (or any data set in MNIST's format) with one
// optimizer after the other, and compares what they reach and what their updates cost.
//
//     idx.hpp          reads the data                 optimizers.cpp   the rules of gradstep by name
//     network.hpp      forward and backward           recipes/         rules with groups, schedules or averages of their own
//     training.hpp     the training loop              your_rules.cpp   your rules
//     copy_limit.hpp   the machine's memory speed     learner.hpp      an optimizer on a network: here gradstep is used
//     options.hpp      the options                    learner_of_model.hpp   the same by gs::model
//     ../common        progress bar, interrupts, plot, errors

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "copy_limit.hpp"
#include "optimizers.hpp"
#include "options.hpp"
#include "training.hpp"

namespace {

constexpr double expected_accuracy = 88; // %, of the best optimizer

struct options : training_options {
    options() { output = "fashion_mnist.png"; }
    std::vector<std::string> optimizers;
    std::size_t seeds = 1, held_out = 0;
    double rate_scale = 1;

    /// What the accuracy is measured by.
    char const* judge() const { return held_out == 0 ? "test" : "held-out"; }
};

void declare(CLI::App& app, options& chosen) {
    std::vector<std::string> names;
    for (contender const& c : contenders()) names.push_back(c.name);
    chosen.optimizers.assign(names.begin(), names.begin() + default_contenders);
    chosen.declare(app);
    app.add_option("--optimizers", chosen.optimizers, "which to compare, separated by commas")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
    app.add_option("--seeds", chosen.seeds, "trainings of each, from --seed on")->check(CLI::Range(1, 1000));
    app.add_option("--rate-scale", chosen.rate_scale, "multiplies the learning rates")->check(CLI::Range(1e-9, 1e9));
    app.add_option("--held-out", chosen.held_out,
                   "to tune: that many training images, which are not learned from, stand for the test set");
}

/// The trainings of one optimizer: one for each seed.
struct trainings {
    std::string name;
    std::vector<result> of_seed;

    /// The mean accuracy of the seeds, in %.
    double mean_accuracy() const { return mean_curve(&result::accuracy).back().y; }
    /// The mean of the seeds' curves, which have the same x.
    std::vector<curve::point> mean_curve(std::vector<curve::point> result::*curve) const {
        auto mean = of_seed.front().*curve;
        for (std::size_t i = 0; i < mean.size(); ++i) {
            mean[i].y = 0;
            for (result const& r : of_seed) mean[i].y += (r.*curve)[i].y / static_cast<double>(of_seed.size());
        }
        return mean;
    }
};

void print_table(std::vector<trainings> const& all, options const& chosen) {
    std::string const range = chosen.seeds > 1 ? "    of all seeds" : "";
    std::printf("\n%29s %s   -------- update --------      state    copy limit\n", chosen.judge(), range.c_str());
    std::printf("optimizer                 accuracy%*s    us/step    GB/s  of limit  bytes/param   GB/s   in\n",
                static_cast<int>(range.size()), "");
    for (trainings const& one : all) {
        footprint const memory = one.of_seed.front().memory;
        auto const parameters = static_cast<double>(one.of_seed.front().parameters);
        double const seconds = std::ranges::min(one.of_seed | std::views::transform(&result::seconds));
        double const speed = static_cast<double>(memory.moved) / seconds, limit = copy_limit(memory.kept());

        std::printf("%-25s %6.2f %%", one.name.c_str(), one.mean_accuracy());
        auto const [lowest, highest] = std::ranges::minmax(one.of_seed | std::views::transform(&result::test_accuracy));
        if (chosen.seeds > 1) std::printf("  %.2f to %.2f", lowest, highest);
        std::printf(" %10.1f %7.1f %7.0f %% %12.1f %6.1f   %s\n", seconds * 1e6, speed / 1e9, 100 * speed / limit,
                    static_cast<double>(memory.state) / parameters, limit / 1e9, memory_level(memory.kept()).c_str());
    }
    std::puts("");
    std::puts(
        "Update: the median step, on one thread, in the training, where the matrix products use the caches too\n"
        "(the fastest of several seeds); GB/s that it reads and writes. State: bytes of the optimizer's state for\n"
        "each parameter. Copy limit: the best std::memcpy on one thread between two buffers that have together the\n"
        "size of all parameters, gradients and state, with nothing in between (an update that reads more than it\n"
        "writes can pass it); in: the smallest memory that holds them.");
}

figure curves_of(std::vector<trainings> const& all, options const& chosen, std::string const& title) {
    panel loss{.title = "Training loss", .curves = {}, .logarithmic = true, .key = below, .y_label = "cross entropy"};
    panel accuracy{.title = chosen.held_out == 0 ? "Test accuracy" : "Accuracy on held-out images",
                   .curves = {},
                   .marked = true,
                   .key = "",
                   .y_label = "accuracy (%)"};
    for (trainings const& one : all) {
        loss.curves.push_back({one.name, one.mean_curve(&result::loss)});
        accuracy.curves.push_back({one.name, one.mean_curve(&result::accuracy)});
    }
    figure out{title, "epoch", static_cast<double>(chosen.epochs), {loss, accuracy}};
    if (chosen.seeds > 1) out.note = formatted("means of %zu seeds", chosen.seeds);
    return out;
}

/// Trains once for each seed; nothing if interrupted.
std::optional<trainings> train(std::string const& name, options const& chosen, task work, progress& bar) {
    auto const& one = *std::ranges::find(contenders(), name, &contender::name);
    auto const make = [&](std::span<network> nets, std::int64_t steps) {
        return one.make(nets, steps, one.peak_rate * chosen.rate_scale);
    };
    trainings done{name, {}};
    for (std::size_t k = 0; k < chosen.seeds; ++k, ++work.seed) {
        auto const outcome = train(name, make, work, bar);
        bar.clear();
        if (!outcome) return {};
        done.of_seed.push_back(*outcome);
    }
    return done;
}

int run(options const& chosen, bool as_delivered) {
    openblas_set_num_threads(chosen.threads);
    interrupt::listen();

    auto const folder = std::filesystem::weakly_canonical(chosen.data);
    data_set data = read_mnist(folder);
    if (chosen.held_out != 0) data = with_held_out(data, chosen.held_out);
    task const work = announced_task(chosen, folder, data);
    if (chosen.held_out != 0) std::puts("the test images are the last ones of the training set, held out");
    if (chosen.seeds > 1) std::printf("%zu trainings of each optimizer: this seed and the next ones\n", chosen.seeds);

    std::vector<trainings> all;
    progress bar(chosen.optimizers.size() * chosen.seeds * work.steps());
    for (std::string const& name : chosen.optimizers) {
        auto done = train(name, chosen, work, bar);
        if (!done) break;
        all.push_back(std::move(*done));
    }
    if (!all.empty()) print_table(all, chosen);
    if (all.size() < chosen.optimizers.size()) {
        std::fprintf(stderr, "\nInterrupted during %s: %s; no picture was written.\n",
                     chosen.optimizers[all.size()].c_str(),
                     all.empty() ? "nothing was finished" : "the table has what was finished");
        return exit_code::interrupted;
    }

    std::string const title =
        name_of(folder) + ": " + sizes_of(work) + " network, batches of " + std::to_string(work.batch);
    plot(curves_of(all, chosen, title), chosen.output);
    std::printf("\nThe curves: %s\n", std::filesystem::absolute(chosen.output).c_str());

    double const best = std::ranges::max(all, {}, &trainings::mean_accuracy).mean_accuracy();
    std::printf("Best %s accuracy: %.2f %%\n", chosen.judge(), best);
    if (as_delivered && best < expected_accuracy) {
        std::fprintf(stderr,
                     "That is below the %.0f %% that this configuration is known to reach: something is wrong.\n",
                     expected_accuracy);
        return exit_code::failed;
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Compares optimizers on Fashion-MNIST.");
    declare(app, chosen);
    CLI11_PARSE(app, argc, argv);
    bool const known =
        as_delivered(app, {"--data", "--optimizers", "--epochs", "--batch", "--hidden", "--rate-scale", "--held-out"});
    return guarded([&] { return run(chosen, known); });
}
