// Trains a two-layer network on Fashion-MNIST (or any data set in MNIST's format) with one optimizer after the other,
// and compares what they reach and what their updates cost.
//
//     idx.hpp          reads the data                 optimizers.hpp   the optimizers by name
//     network.hpp      forward and backward           learner.hpp      an optimizer on a network, where gradstep is used
//     training.hpp     the training loop
//     copy_limit.hpp   what the machine could do      ../common        progress bar, interrupts, plot, errors

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "copy_limit.hpp"
#include "optimizers.hpp"
#include "training.hpp"

// OpenBLAS' own; declared here because other implementations' <cblas.h> may be the installed one.
extern "C" void openblas_set_num_threads(int);

namespace {

constexpr double expected_accuracy = 88; // %, of the best optimizer

struct options {
    std::string data = "/usr/share/datasets/fashion-mnist";
    std::string output = "fashion_mnist.png";
    std::vector<std::string> optimizers;
    std::size_t epochs = 12, batch = 128, hidden = 128;
    std::uint64_t seed = 1;
    int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 2u));
};

void declare(CLI::App& app, options& chosen) {
    std::vector<std::string> names;
    for (contender const& c : contenders()) names.push_back(c.name);
    chosen.optimizers.assign(names.begin(), names.begin() + default_contenders);
    auto const known = CLI::IsMember(names);
    auto const at_least_1 = CLI::Range(std::size_t(1), std::size_t(1'000'000));

    app.option_defaults()->always_capture_default();
    app.add_option("--data", chosen.data, "folder with the four files of a data set in MNIST's format");
    app.add_option("--output", chosen.output, "the picture of the curves (PNG)")->check(has_folder);
    app.add_option("--optimizers", chosen.optimizers, "which to compare, separated by commas")
        ->delimiter(',')
        ->check(known);
    app.add_option("--epochs", chosen.epochs, "passes over the data")->check(at_least_1);
    app.add_option("--batch", chosen.batch, "samples in a step")->check(at_least_1);
    app.add_option("--hidden", chosen.hidden, "width of the hidden layer")->check(at_least_1);
    app.add_option("--seed", chosen.seed, "of the initial weights and the order of the samples");
    app.add_option("--threads", chosen.threads, "for the matrix products")->check(CLI::Range(1, 1024));
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
    panel loss{.title = "training loss (cross entropy)", .curves = {}, .logarithmic = true, .key = ""};
    panel accuracy{.title = "test accuracy (%)", .curves = {}, .marked = true, .key = "bottom right"};
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
    task const work{data, chosen.hidden, std::min(chosen.batch, data.train.size()), chosen.epochs, chosen.seed};
    std::string const sizes =
        std::to_string(data.train.pixels) + '-' + std::to_string(work.hidden) + '-' + std::to_string(data.classes);
    std::printf("%s: %zu training and %zu test images\n%s network, %zu epochs of %zu batches of %zu, seed %llu\n",
                folder.c_str(), data.train.size(), data.test.size(), sizes.c_str(), work.epochs, work.batches(),
                work.batch, static_cast<unsigned long long>(work.seed));

    std::vector<result> results;
    progress bar(chosen.optimizers.size() * work.steps());
    for (std::string const& name : chosen.optimizers) {
        auto const& one = *std::ranges::find(contenders(), name, &contender::name);
        auto const outcome = train(name, one.make, work, bar);
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
        folder.filename().string() + ": " + sizes + " network, batches of " + std::to_string(work.batch);
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
    bool as_delivered = true;
    for (auto const* option : {"--data", "--optimizers", "--epochs", "--batch", "--hidden"}) {
        as_delivered &= app.count(option) == 0;
    }
    return guarded([&] { return run(chosen, as_delivered); });
}
