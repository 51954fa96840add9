// Trains a two-layer network on Fashion-MNIST (or any data set in MNIST's format) with one optimizer after the other,
// and compares what they reach and what their updates cost.
//
//     idx.hpp          reads the data                 optimizers.cpp   the rules of gradstep by name
//     network.hpp      forward and backward           your_rules.cpp   the same for your rules
//     training.hpp     the training loop              learner.hpp      an optimizer on a network: here gradstep is used
//     copy_limit.hpp   the machine's memory speed     options.hpp      the options of the command line
//     ../common        progress bar, interrupts, plot, errors

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
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
    double rate_scale = 1;
};

void declare(CLI::App& app, options& chosen) {
    std::vector<std::string> names;
    for (contender const& c : contenders()) names.push_back(c.name);
    chosen.optimizers.assign(names.begin(), names.begin() + default_contenders);
    chosen.declare(app);
    app.add_option("--optimizers", chosen.optimizers, "which to compare, separated by commas")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
    app.add_option("--rate-scale", chosen.rate_scale, "multiplies the learning rates")->check(CLI::Range(1e-9, 1e9));
}

void print_table(std::vector<result> const& results) {
    std::puts("");
    std::puts("                            test       ---------- update ----------   copy limit");
    std::puts("optimizer                 accuracy     seconds     GB/s   of limit    GB/s   in");
    for (result const& r : results) {
        double const limit = copy_limit(r.working_set);
        std::printf("%-25s %6.2f %%   %9.3f %8.1f %8.0f %% %7.1f   %s\n", r.name.c_str(), r.test_accuracy(), r.seconds,
                    r.bytes_per_second / 1e9, 100 * r.bytes_per_second / limit, limit / 1e9,
                    memory_level(r.working_set).c_str());
    }
    std::puts("");
    std::puts(
        "Update: seconds of all steps; GB/s that the median step reads and writes, on one thread, in the training,\n"
        "where the matrix products use the caches too. Copy limit: the best std::memcpy on one thread between two\n"
        "buffers that have together the size of all parameters, gradients and state, with nothing in between (an\n"
        "update that reads more than it writes can pass it); in: the smallest memory that holds them.");
}

figure curves_of(std::vector<result> const& results, std::size_t epochs, std::string const& title) {
    panel loss{.title = "Training loss", .curves = {}, .logarithmic = true, .key = below, .y_label = "cross entropy"};
    panel accuracy{.title = "Test accuracy", .curves = {}, .marked = true, .key = "", .y_label = "accuracy (%)"};
    for (result const& r : results) {
        loss.curves.push_back({r.name, r.loss});
        accuracy.curves.push_back({r.name, r.accuracy});
    }
    return {title, "epoch", static_cast<double>(epochs), {loss, accuracy}};
}

int run(options const& chosen, bool as_delivered) {
    openblas_set_num_threads(chosen.threads);
    interrupt::listen();

    auto const folder = std::filesystem::weakly_canonical(chosen.data);
    data_set const data = read_mnist(folder);
    task const work = announced_task(chosen, folder, data);

    std::vector<result> results;
    progress bar(chosen.optimizers.size() * work.steps());
    for (std::string const& name : chosen.optimizers) {
        auto const& one = *std::ranges::find(contenders(), name, &contender::name);
        auto const make = [&](std::span<network> nets, std::int64_t steps) {
            return one.make(nets, steps, one.peak_rate * chosen.rate_scale);
        };
        auto const outcome = train(name, make, work, bar);
        bar.clear();
        if (!outcome) break;
        results.push_back(*outcome);
    }
    if (!results.empty()) print_table(results);
    if (results.size() < chosen.optimizers.size()) {
        std::fprintf(stderr, "\nInterrupted during %s: %s; no picture was written.\n",
                     chosen.optimizers[results.size()].c_str(),
                     results.empty() ? "nothing was finished" : "the table has what was finished");
        return exit_code::interrupted;
    }

    std::string const title =
        name_of(folder) + ": " + sizes_of(work) + " network, batches of " + std::to_string(work.batch);
    plot(curves_of(results, work.epochs, title), chosen.output);
    std::printf("\nThe curves: %s\n", std::filesystem::absolute(chosen.output).c_str());

    double const best = std::ranges::max(results, {}, &result::test_accuracy).test_accuracy();
    std::printf("Best test accuracy: %.2f %%\n", best);
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
    bool const known = as_delivered(app, {"--data", "--optimizers", "--epochs", "--batch", "--hidden", "--rate-scale"});
    return guarded([&] { return run(chosen, known); });
}
