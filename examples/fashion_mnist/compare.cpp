// Trains a two-layer network on Fashion-MNIST (or any data set in MNIST's format) with one
// optimizer after the other, and compares what they reach and what their updates cost.

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "contender.hpp"
#include "copy_limit.hpp"
#include "options.hpp"
#include "plain_loops.hpp"
#include "reproducible.hpp"
#include "training.hpp"

namespace {

constexpr double expected_accuracy = 87; // %, of the best optimizer

struct options : training_options {
    options() { output = "fashion_mnist.png", epochs = 5; }
    std::vector<std::string> optimizers;
    std::size_t seeds = 1, held_out = 0;
    double rate_scale = 1;

    /// What the accuracy is measured by.
    char const* judge() const { return held_out == 0 ? "test" : "held-out"; }
};

void declare(CLI::App& app, options& chosen, std::vector<contender> const& contenders) {
    std::vector<std::string> names;
    for (contender const& c : contenders) names.push_back(c.name);
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
    std::printf("\n%29s %s   ------- update, us -------        state\n", chosen.judge(), range.c_str());
    std::printf("optimizer                 accuracy%*s   gradstep  a loop  memory  bytes/param\n",
                static_cast<int>(range.size()), "");
    for (trainings const& one : all) {
        footprint const memory = one.of_seed.front().memory;
        auto const parameters = static_cast<double>(one.of_seed.front().parameters);
        auto const fastest = [&](double result::*seconds) {
            return std::ranges::min(one.of_seed | std::views::transform(seconds));
        };
        std::printf("%-25s %6.2f %%", one.name.c_str(), one.mean_accuracy());
        auto const [lowest, highest] = std::ranges::minmax(one.of_seed | std::views::transform(&result::test_accuracy));
        if (chosen.seeds > 1) std::printf("  %.2f to %.2f", lowest, highest);
        double const plain = fastest(&result::plain_seconds);
        std::printf(" %10.1f %7s %7.1f %12.1f\n", fastest(&result::seconds_alone) * 1e6,
                    plain == 0 ? "-" : formatted("%.1f", plain * 1e6).c_str(),
                    static_cast<double>(memory.moved) / copy_limit(memory.kept()) * 1e6,
                    static_cast<double>(memory.state) / parameters);
    }
    std::printf(
        "\nUpdate: the median time of a step of all %zu parameters on one thread. gradstep: by this library; a loop:\n"
        "by the loop that you would write, with the same compiler and flags (plain_loops.cpp; g++ does not vectorize "
        "a\n"
        "root that may set errno); memory: what std::memcpy takes in %s to read and write as many bytes. State:\n"
        "the bytes that the optimizer keeps for each parameter.\n",
        all.front().of_seed.front().parameters, memory_level(all.front().of_seed.front().memory.kept()).c_str());
}

/// Prints the hash of a training by one thread and by all of them; false if it is not the known
/// one.
bool print_hash() {
    std::size_t const threads = std::max(2u, std::thread::hardware_concurrency());
    std::uint64_t const alone = hash_of_training(1), together = hash_of_training(threads);
    std::printf("\nHash of the weights after 100 steps of AdamW, %s: %016" PRIx64 " with 1 thread, %016" PRIx64
                " with %zu.\n",
                instruction_set(), alone, together, threads);
    if (!fuses_multiply_add()) return alone == together;
    bool const known = alone == known_hash && together == known_hash;
    std::puts(known ? "It is the same on every machine with a fused multiply-add, such as AVX2, AVX-512 and AArch64."
                    : "It differs from the hash on other machines: something is wrong.");
    return known;
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

/// Takes more steps to measure the update alone, and in turn with it the plain loop of the same
/// name.
void measure_alone(learner& one, network& net, result& to) {
    auto const plain = plain_loop(to.name, net);
    std::vector<double> of_one, of_plain;
    for (int k = 0; k < 200; ++k) {
        of_one.push_back(seconds_of(one));
        of_plain.push_back(plain ? seconds_of(*plain) : 0);
    }
    to.seconds_alone = median(of_one), to.plain_seconds = median(of_plain);
}

/// Trains once for each seed; nothing if interrupted.
std::optional<trainings> train(contender const& one, options const& chosen, task work, progress& bar) {
    auto const make = [&](std::span<network> nets, std::int64_t steps) {
        return one.make(nets, steps, one.peak_rate * chosen.rate_scale);
    };
    trainings done{one.name, {}};
    for (std::size_t k = 0; k < chosen.seeds; ++k, ++work.seed) {
        auto const outcome = train(one.name, make, work, bar, measure_alone);
        bar.clear();
        if (!outcome) return {};
        done.of_seed.push_back(*outcome);
    }
    return done;
}

int run(options const& chosen, std::vector<contender> const& contenders, bool as_delivered) {
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
        auto done = train(*std::ranges::find(contenders, name, &contender::name), chosen, work, bar);
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
    bool const same = print_hash();
    std::printf("\nThe curves: %s\n", std::filesystem::absolute(chosen.output).c_str());

    double const best = std::ranges::max(all, {}, &trainings::mean_accuracy).mean_accuracy();
    std::printf("Best %s accuracy: %.2f %%\n", chosen.judge(), best);
    if (as_delivered && best < expected_accuracy) {
        std::fprintf(stderr,
                     "That is below the %.0f %% that this configuration is known to reach: something is wrong.\n",
                     expected_accuracy);
        return exit_code::failed;
    }
    return same ? 0 : exit_code::failed;
}

} // namespace

int compare(int argc, char** argv, std::vector<contender> const& contenders) {
    options chosen;
    CLI::App app("Compares optimizers on Fashion-MNIST.");
    declare(app, chosen, contenders);
    CLI11_PARSE(app, argc, argv);
    bool const known =
        as_delivered(app, {"--data", "--optimizers", "--epochs", "--batch", "--hidden", "--rate-scale", "--held-out"});
    return guarded([&] { return run(chosen, contenders, known); });
}
