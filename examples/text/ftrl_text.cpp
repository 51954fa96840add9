// Learns to tell verses of the Old Testament from verses of the New one by online logistic regression over millions of
// hashed features, with FTRL-Proximal and with Adagrad under a proximal elastic net, side by side on the same stream.
// Both leave weights exactly 0, FTRL far more of them at the same accuracy.
//
//     verses.hpp     reads the text                logistic_regression.hpp   the model, where gradstep's table is used
//     features.hpp   turns a verse into ids        ../common                 progress bar, interrupts, plot, errors

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
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
#include "features.hpp"
#include "logistic_regression.hpp"
#include "verses.hpp"

namespace gs = gradstep;

namespace {

constexpr double expected_accuracy = 93; // %, of both learners on the verses held out
constexpr std::size_t points_in_a_pass = 20;

struct options {
    std::string text;
    std::string output = "ftrl_text.png";
    std::size_t passes = 3, batch = 4, verses = 0;
    int bits = 22;
    std::uint64_t seed = 1;
};

void declare(CLI::App& app, options& chosen) {
    auto const at_least_1 = CLI::Range(std::size_t(1), std::size_t(1'000'000));
    app.option_defaults()->always_capture_default();
    app.add_option("--text", chosen.text, "file of verses as `bible -f -l5000` prints them; without it, its output");
    app.add_option("--output", chosen.output, "the picture of the curves (PNG)")->check(has_folder);
    app.add_option("--passes", chosen.passes, "over the verses")->check(at_least_1);
    app.add_option("--batch", chosen.batch, "verses in a step")->check(at_least_1);
    app.add_option("--bits", chosen.bits, "of a feature's id: 2^bits weights")->check(CLI::Range(8, 28));
    app.add_option("--verses", chosen.verses, "take only so many, evenly spread; 0: all");
    app.add_option("--seed", chosen.seed, "of the order of the verses");
}

/// What to learn from, and a tenth of the verses held out to be judged by.
struct data_set {
    std::vector<example> train, test;
};

data_set split(std::vector<verse> const& verses, hashed_features const& features, std::mt19937_64& engine) {
    std::vector<example> all;
    for (verse const& v : verses) all.push_back({features.of(v.text), v.is_new});
    std::ranges::shuffle(all, engine);
    auto const held_out = all.begin() + std::max<std::ptrdiff_t>(1, std::ssize(all) / 10);
    return {{held_out, all.end()}, {all.begin(), held_out}};
}

std::vector<example const*> pointers_to(std::vector<example> const& examples) {
    std::vector<example const*> pointers;
    for (example const& e : examples) pointers.push_back(&e);
    return pointers;
}

/// The features that learning has seen.
class touched_features {
public:
    explicit touched_features(std::size_t count) : seen_(count) {}
    void add(std::vector<std::int64_t> const& ids) {
        for (std::int64_t const id : ids) {
            if (!seen_[static_cast<std::size_t>(id)]) ids_.push_back(id);
            seen_[static_cast<std::size_t>(id)] = true;
        }
    }
    std::vector<std::int64_t> const& ids() const { return ids_; }

private:
    std::vector<bool> seen_;
    std::vector<std::int64_t> ids_;
};

/// Shows the examples to all learners, batch by batch and in a new order in each pass. False if interrupted.
template <class... Learner>
bool train(options const& chosen, data_set const& data, std::size_t features, std::mt19937_64& engine,
           Learner&... learners) {
    std::vector<example const*> order = pointers_to(data.train);
    progress bar(chosen.passes * order.size());
    touched_features touched(features);
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
            touched.add(batch.ids);

            done += batch.size();
            bar.advance(batch.size(), status);
            if (interrupt::requested()) {
                bar.clear();
                return false;
            }
            if (point_of(done) > point_of(done - batch.size())) {
                double const share = static_cast<double>(done) / static_cast<double>(order.size());
                (learners.mark(static_cast<double>(pass) + share, touched.ids()), ...);
            }
        }
        bar.milestone(status());
    }
    bar.clear();
    return true;
}

/// Prints a line of the table. Returns the accuracy on the verses held out, in %.
template <class Learner> double report(Learner& learner, data_set const& data) {
    score const test = learner.judge(example_batch(pointers_to(data.test)));
    auto const examples = static_cast<double>(data.train.size()) * learner.loss.back().x;
    std::printf("%-8s  %8.4f %8.2f %%   %8.4f %8.2f %%   %8.2f %%   %10.0f %10.2f\n", learner.name.c_str(),
                learner.first_pass.loss(), learner.first_pass.accuracy(), test.loss(), test.accuracy(),
                learner.zeros.back().y, examples / learner.seconds,
                static_cast<double>(learner.features) / learner.seconds / 1e6);
    return test.accuracy();
}

template <class Learner>
void print_telling_words(Learner const& learner, std::vector<verse> const& verses, hashed_features const& features) {
    std::map<std::string_view, std::size_t> counts;
    for (verse const& v : verses) {
        for (auto const word : words_of(v.text)) ++counts[word];
    }
    std::vector<std::string_view> words;
    std::vector<std::int64_t> ids;
    for (auto [word, count] : counts) {
        if (count < 5) continue;
        words.push_back(word);
        ids.push_back(features.of_word(word));
    }
    std::vector<std::pair<float, std::string_view>> ranked;
    for (std::size_t i = 0; float const weight : learner.weights_of(ids)) ranked.emplace_back(weight, words[i++]);
    std::ranges::sort(ranked);

    std::size_t const most = std::min<std::size_t>(15, ranked.size());
    std::string told_old, told_new;
    for (std::size_t i = 0; i < most; ++i) {
        told_old += ' ' + std::string(ranked[i].second);
        told_new += ' ' + std::string(ranked[ranked.size() - 1 - i].second);
    }
    std::printf("\nThe words that tell most, to %s:\n  Old Testament:%s\n  New Testament:%s\n", learner.name.c_str(),
                told_old.c_str(), told_new.c_str());
}

template <class... Learner> figure curves_of(options const& chosen, Learner const&... learners) {
    auto const passes = static_cast<double>(chosen.passes);
    return {formatted("Old or New Testament? %d bits of features, batches of %zu", chosen.bits, chosen.batch),
            "passes (from the second on, the verses have been seen before)",
            passes,
            {{.title = "progressive log loss", .curves = {{learners.name, learners.loss}...}, .key = "top right"},
             {.title = "progressive accuracy (%)", .curves = {{learners.name, learners.accuracy}...}, .key = ""},
             {.title = "weights that are 0, of the features seen (%)",
              .curves = {{learners.name, learners.zeros}...},
              .key = ""}}};
}

int run(options const& chosen, bool as_delivered) {
    interrupt::listen();
    std::vector<verse> const verses = read_verses(chosen.text, chosen.verses);
    auto const of_new = std::ranges::count(verses, true, &verse::is_new);
    if (of_new == 0 || of_new == std::ssize(verses))
        throw data_error("The verses leave nothing to tell apart: all are of one testament.");

    std::mt19937_64 engine(chosen.seed);
    hashed_features const features(chosen.bits);
    data_set const data = split(verses, features, engine);
    std::printf("%zu verses to learn from, %zu held out; %.1f %% of all are of the New Testament\n", data.train.size(),
                data.test.size(), 100 * static_cast<double>(of_new) / static_cast<double>(verses.size()));

    // Examples have length 1, so gradients are small: beta and the l1 of ftrl, which compare to them, are small too.
    auto const by_ftrl = gs::make_updater<float>(gs::ftrl{.l1 = 0.05, .beta = 0.01}, gs::constant{0.8});
    auto const by_adagrad = gs::make_updater<float>(
        gs::adagrad{}, gs::proximal{gs::elastic_net{.l1 = 1e-4, .l2 = 1e-6}}, gs::constant{0.5});
    logistic_regression ftrl("ftrl", gs::table{by_ftrl, features.count(), 1, gs::exact{}});
    logistic_regression adagrad("adagrad", gs::table{by_adagrad, features.count(), 1, gs::exact{}});
    std::printf("ftrl:    %s\nadagrad: %s\n", gs::describe(by_ftrl).c_str(), gs::describe(by_adagrad).c_str());
    if (!train(chosen, data, features.count(), engine, ftrl, adagrad)) {
        std::fprintf(stderr, "Interrupted: no picture was written.\n");
        return exit_code::interrupted;
    }

    std::puts("\n          first pass, each verse         held out                zero of\n"
              "           before it is learned         at the end           weights seen           learning\n"
              "learner       loss   accuracy       loss   accuracy                       verses/s Mfeatures/s");
    double const ftrl_accuracy = report(ftrl, data), adagrad_accuracy = report(adagrad, data);
    print_telling_words(ftrl, verses, features);

    plot(curves_of(chosen, ftrl, adagrad), chosen.output);
    std::printf("\nThe curves: %s\n", std::filesystem::absolute(chosen.output).c_str());
    if (as_delivered && std::min(ftrl_accuracy, adagrad_accuracy) < expected_accuracy) {
        std::fprintf(stderr,
                     "One of them is below the accuracy of %.0f %% that both are known to reach: something is "
                     "wrong.\n",
                     expected_accuracy);
        return exit_code::failed;
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Tells the Old from the New Testament with sparse tables under FTRL and Adagrad.");
    declare(app, chosen);
    CLI11_PARSE(app, argc, argv);
    bool as_delivered = true;
    for (auto const* option : {"--text", "--passes", "--batch", "--bits", "--verses"})
        as_delivered &= app.count(option) == 0;
    return guarded([&] { return run(chosen, as_delivered); });
}
