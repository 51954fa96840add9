#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <gradstep/gradstep.hpp>

#include "../common/interrupt.hpp"
#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "../common/progress.hpp"
#include "logistic_regression.hpp"
#include "verses.hpp"

// What programs share that tell verses of the Old Testament from verses of the New one, by FTRL
// beside Adagrad.

namespace gs = gradstep;

constexpr double expected_accuracy = 93; // %, of both learners on the verses held out

struct testament_options {
    std::string text;
    std::string output;
    std::size_t passes = 3, batch = 4, verses = 0;
    std::uint64_t seed = 1;

    void declare(CLI::App& app) {
        auto const at_least_1 = CLI::Range(std::size_t(1), std::size_t(1'000'000));
        app.option_defaults()->always_capture_default();
        app.add_option("--text", text, "file of verses as `bible -f -l5000` prints them; without it, its output");
        app.add_option("--output", output, "the picture of the curves (PNG)")->check(has_folder);
        app.add_option("--passes", passes, "over the verses")->check(at_least_1);
        app.add_option("--batch", batch, "verses in a step of a learner")->check(at_least_1);
        app.add_option("--verses", verses, "take only so many, evenly spread; 0: all");
        app.add_option("--seed", seed, "of the order of the verses");
    }
};

// Examples have length 1, so gradients are small: beta and the l1 of ftrl, which compare to them,
// are small too.
inline auto const by_ftrl = gs::make_updater<float>(gs::ftrl{.l1 = 0.05, .beta = 0.01}, gs::constant{0.8});
inline auto const by_adagrad =
    gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::elastic_net{.l1 = 1e-4, .l2 = 1e-6}}, gs::constant{0.5});

/// Verses of both testaments. Throws data_error if they are all of one testament.
inline std::vector<verse> read_testaments(testament_options const& chosen) {
    std::vector<verse> out = read_verses(chosen.text, chosen.verses);
    if (auto const of_new = std::ranges::count(out, true, &verse::is_new); of_new == 0 || of_new == std::ssize(out))
        throw data_error("The verses leave nothing to tell apart: all are of one testament.");
    return out;
}

/// How many of the verses, which are in random order, are held out to judge by.
inline std::size_t held_out_of(std::size_t verses) { return std::max<std::size_t>(1, verses / 10); }

inline std::vector<example const*> pointers_to(std::vector<example> const& examples) {
    std::vector<example const*> pointers;
    for (example const& e : examples) pointers.push_back(&e);
    return pointers;
}

/// Shows the examples to all learners, batch by batch and in a new order in each pass, and, if
/// `shows`, how that goes; known(batch), after each, is the features whose weights are looked at.
/// False if interrupted.
template <class Known, class... Learner>
bool learn(testament_options const& chosen, std::vector<example> const& examples, std::mt19937_64& engine, bool shows,
           Known const& known, Learner&... learners) {
    constexpr std::size_t points_in_a_pass = 20;
    std::vector<example const*> order = pointers_to(examples);
    progress bar(chosen.passes * order.size());
    auto const point_of = [&](std::size_t done) { return done * points_in_a_pass / order.size(); };
    for (std::size_t pass = 0; pass < chosen.passes; ++pass) {
        auto const status = [&] {
            return formatted("pass %zu", pass + 1) +
                   (formatted("  %s: loss %.3f", learners.name.c_str(), learners.loss_now()) + ...);
        };
        std::ranges::shuffle(order, engine);
        for (std::size_t done = 0; done < order.size();) {
            example_batch const batch{std::span(order).subspan(done, std::min(chosen.batch, order.size() - done))};
            (learners.learn(batch, pass == 0), ...);
            std::vector<std::int64_t> const& features = known(batch);
            done += batch.size();
            if (interrupt::requested()) {
                bar.clear();
                return false;
            }
            if (!shows) continue;
            bar.advance(batch.size(), status);
            if (point_of(done) > point_of(done - batch.size())) {
                double const share = static_cast<double>(done) / static_cast<double>(order.size());
                (learners.mark(static_cast<double>(pass) + share, features), ...);
            }
        }
        if (shows) bar.milestone(status());
    }
    if (shows) bar.clear();
    return true;
}

/// How the learners did, by what `learn` has shown, over passes as `x` calls them; `zeros` says of
/// which features weights that are 0 are counted.
template <class... Learner>
figure curves_of(testament_options const& chosen, std::string const& how, std::string const& x,
                 std::string const& zeros, Learner const&... learners) {
    return {"Old or New Testament? " + how + formatted(", batches of %zu", chosen.batch),
            x,
            static_cast<double>(chosen.passes),
            {{.title = "Progressive log loss",
              .curves = {{learners.name, learners.loss}...},
              .key = below,
              .y_label = "log loss"},
             {.title = "Progressive accuracy",
              .curves = {{learners.name, learners.accuracy}...},
              .key = "",
              .y_label = "accuracy (%)"},
             {.title = "Weights that are 0, of the features " + zeros,
              .curves = {{learners.name, learners.zeros}...},
              .key = "",
              .y_label = "weights that are 0 (%)"}}};
}
