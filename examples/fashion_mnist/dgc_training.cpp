// Trains the demo's network with several trainers, each with its own part of the data, which send
// each other gradients: once all of every gradient, for momentum, and once by Deep Gradient
// Compression, down to a thousandth of the entries.
//
//     trainers.hpp     a trainer, and what they send each other; the rest is the demo's (main.cpp)

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "options.hpp"
#include "trainers.hpp"
#include "training.hpp"

namespace {

constexpr double expected_loss = 0.5; // % of test accuracy, at most, by the compression

struct options : training_options {
    options() {
        output = "dgc_training.png";
        batch = 32;
    }
    std::size_t trainers = 4;
    std::int64_t dense_below = 16384;
};

void declare(CLI::App& app, options& chosen) {
    chosen.declare(app);
    app.add_option("--trainers", chosen.trainers, "each with its own part of the data")->check(CLI::Range(1, 64));
    app.add_option("--dense-below", chosen.dense_below, "tensors with fewer elements are not compressed")
        ->check(CLI::NonNegativeNumber);
}

/// Momentum whose gradients are compressed from some step on.
gs::dgc_momentum compressed_from(std::int64_t begin, std::int64_t steps, options const& chosen) {
    // [rule]
    gs::dgc_momentum rule{.mu = 0.9,
                          .rampup_begin_step = begin,
                          .rampup_step = std::max<std::int64_t>(1, steps * 5 / 12), // 5 of 12 epochs
                          .sparsity = {0.75, 0.9375, 0.984375, 0.996, 0.999},
                          .num_trainers = static_cast<std::int64_t>(chosen.trainers),
                          .dense_below = chosen.dense_below}; // 16384: all but the largest of 100352, 128, 1280 and 10
    // [rule]
    return rule;
}

struct contender {
    std::string name;
    bool compresses;
    exchanges sent;

    /// Dense is what never comes to its ramp: the steps of `momentum`, bit for bit.
    make_learner maker(options const& chosen) {
        return [&](std::span<network> nets, std::int64_t steps) -> std::unique_ptr<learner> {
            auto const rule = compressed_from(compresses ? steps / 12 : steps, steps, chosen);
            auto const optimizer = gs::make_updater<float>(rule, demo_schedule(0.1, steps));
            return std::make_unique<trainers<std::remove_const_t<decltype(optimizer)>>>(optimizer, nets, sent);
        };
    }
    /// Bytes that a trainer has sent when so many steps are done.
    double bytes_until(std::size_t steps) const {
        return std::accumulate(sent.steps.begin(), sent.steps.begin() + static_cast<std::ptrdiff_t>(steps), 0.0,
                               [](double sum, exchange const& step) { return sum + static_cast<double>(step.bytes); });
    }
};

void print_tables(std::vector<contender> const& all, std::vector<result> const& results) {
    std::puts("");
    std::puts("                      test      ---- bytes that each trainer sends ----");
    std::puts("                  accuracy    in the first step    in the last       in all");
    for (std::size_t k = 0; k < all.size(); ++k) {
        auto const& steps = all[k].sent.steps;
        std::printf("%-14s %9.2f %%   %18zu %14zu %9.1f MB\n", all[k].name.c_str(), results[k].test_accuracy(),
                    steps.front().bytes, steps.back().bytes, all[k].bytes_until(steps.size()) / 1e6);
    }
    std::puts("");
    std::printf("steps of %-10s  sparsity   bytes a step   of dense\n", all.back().name.c_str());
    auto const& steps = all.back().sent.steps;
    double const dense = static_cast<double>(all.front().sent.steps.front().bytes);
    for (auto first = steps.begin(); first != steps.end();) {
        auto const last =
            std::find_if(first, steps.end(), [&](exchange const& step) { return step.sparsity != first->sparsity; });
        double const bytes =
            std::accumulate(first, last, 0.0,
                            [](double sum, exchange const& step) { return sum + static_cast<double>(step.bytes); }) /
            static_cast<double>(last - first);
        std::string const sparsity = first->sparsity == 0 ? "dense" : formatted("%.4f %%", 100 * first->sparsity);
        std::printf("%6td to %6td   %12s %14.0f %8.2f %%\n", first - steps.begin() + 1, last - steps.begin(),
                    sparsity.c_str(), bytes, 100 * bytes / dense);
        first = last;
    }
    std::puts("");
    std::puts("Bytes are those of the encoded messages, headers and checksums included; what a network adds is not.");
}

/// The steps in which the sparsity rises.
band ramp_of(contender const& compressed) {
    auto const& steps = compressed.sent.steps;
    double const last = steps.back().sparsity;
    auto const begin = std::ranges::find_if(steps, [](exchange const& step) { return step.sparsity > 0; });
    auto const end = std::ranges::find_if(steps, [&](exchange const& step) { return step.sparsity == last; });
    double const from = static_cast<double>(begin - steps.begin()), to = static_cast<double>(end - steps.begin());
    return {from, to, formatted("sparsity rises: steps %.0f to %.0f", from, to)};
}

figure curves_of(std::vector<contender> const& all, std::vector<result> const& results, task const& work,
                 std::string const& title) {
    std::string const loss_name = "training loss, cross entropy";
    panel by_step{.title = "Over steps",
                  .curves = {},
                  .logarithmic = true,
                  .key = below,
                  .y_label = loss_name,
                  .bands = {ramp_of(all.back())}};
    panel by_bytes{.title = "Over bytes", .curves = {}, .logarithmic = true, .key = "", .y_label = loss_name};
    double most = 0, least = 0;
    for (std::size_t k = 0; k < all.size(); ++k) {
        by_step.curves.push_back({all[k].name, {}});
        by_bytes.curves.push_back({all[k].name, {}});
        for (auto [epoch, loss] : results[k].loss) {
            auto const steps = std::lround(epoch * static_cast<double>(work.batches()));
            double const megabytes = all[k].bytes_until(static_cast<std::size_t>(steps)) / 1e6;
            by_step.curves.back().points.push_back({static_cast<double>(steps), loss});
            by_bytes.curves.back().points.push_back({megabytes, loss});
            most = std::max(most, megabytes);
            least = least == 0 ? megabytes : std::min(least, megabytes);
        }
    }
    by_bytes.x =
        x_axis{.label = "megabytes that each trainer has sent", .end = most, .begin = least, .logarithmic = true};
    return {.title = title,
            .x_label = "step",
            .x_end = static_cast<double>(work.steps()),
            .panels = {by_step, by_bytes},
            .note = formatted("%zu trainers with batches of %zu, one run each, seed %llu", work.trainers, work.batch,
                              static_cast<unsigned long long>(work.seed))};
}

int run(options const& chosen, bool as_delivered) {
    openblas_set_num_threads(chosen.threads);
    interrupt::listen();

    auto const folder = std::filesystem::weakly_canonical(chosen.data);
    data_set const data = read_mnist(folder);
    task const work = announced_task(chosen, folder, data, chosen.trainers);

    std::vector<contender> all{{"dense momentum", false, {}}, {"dgc_momentum", true, {}}};
    std::vector<result> results;
    progress bar(all.size() * work.steps());
    for (contender& one : all) {
        auto const outcome = train(one.name, one.maker(chosen), work, bar);
        bar.clear();
        if (!outcome) {
            std::fprintf(stderr, "\nInterrupted during %s: no picture was written.\n", one.name.c_str());
            return exit_code::interrupted;
        }
        results.push_back(*outcome);
    }
    print_tables(all, results);
    std::string const title = "Dense and compressed gradients: " + name_of(folder) + ", " + sizes_of(work) + " network";
    plot(curves_of(all, results, work, title), chosen.output);
    std::printf("\nThe curves: %s\n", std::filesystem::absolute(chosen.output).c_str());

    if (!all[0].sent.identical || !all[1].sent.identical) {
        std::fprintf(stderr, "The trainers hold different weights: something is wrong.\n");
        return exit_code::failed;
    }
    std::printf("After every step all %zu trainers held the same weights, bit for bit.\n", work.trainers);
    double const lost = results[0].test_accuracy() - results[1].test_accuracy();
    if (as_delivered && lost > expected_loss) {
        std::fprintf(stderr, "Compression costs %.2f %% of accuracy, more than %.1f %%: something is wrong.\n", lost,
                     expected_loss);
        return exit_code::failed;
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Compares dense gradients and Deep Gradient Compression between trainers.");
    declare(app, chosen);
    CLI11_PARSE(app, argc, argv);
    bool const known = as_delivered(app, {"--data", "--epochs", "--batch", "--hidden", "--trainers", "--dense-below"});
    return guarded([&] { return run(chosen, known); });
}
