// Learns vectors of words from the text of the Bible by skip-gram with negative sampling: two
// tables, whose rows are named by thousands of ids in a step, most of them several times.
//
//     verses.hpp       reads the text            skip_gram.hpp   the model, where gradstep's tables are used
//     vocabulary.hpp   numbers the words         ../common       progress bar, interrupts, plot, errors

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <gradstep/gradstep.hpp>

#include "../common/interrupt.hpp"
#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "../common/progress.hpp"
#include "skip_gram.hpp"
#include "verses.hpp"
#include "vocabulary.hpp"

namespace {

constexpr double expected_loss = 2.45; // of a pair, in the last pass; without learning it is 6 * log(2) = 4.16
constexpr std::size_t points_in_a_pass = 10, neighbours_shown = 8;

struct options {
    std::string text;
    std::string output = "embedding_table.png";
    std::string rule = "adagrad";
    std::vector<std::string> words{"king", "sea", "bread", "father", "sword", "david", "jerusalem", "egypt", "heaven"};
    std::size_t passes = 12, batch = 4096, verses = 0, window = 5, least = 10;
    double rate = 0.1, threshold = 1e-3;
    std::uint64_t seed = 1;
    std::size_t threads = std::clamp(std::thread::hardware_concurrency(), 1u, 2u);
};

void declare(CLI::App& app, options& chosen) {
    auto const at_least_1 = CLI::Range(std::size_t(1), std::size_t(1'000'000));
    app.option_defaults()->always_capture_default();
    app.add_option("--text", chosen.text, "file of verses as `bible -f -l5000` prints them; without it, its output");
    app.add_option("--output", chosen.output, "the picture of the loss (PNG)")->check(has_folder);
    app.add_option("--rule", chosen.rule, "which to learn by")->check(CLI::IsMember({"adagrad", "rowwise_adagrad"}));
    app.add_option("--words", chosen.words, "whose neighbours to show")->delimiter(',');
    app.add_option("--passes", chosen.passes, "over the verses")->check(at_least_1);
    app.add_option("--batch", chosen.batch, "pairs in a step, or a few more")->check(at_least_1);
    app.add_option("--verses", chosen.verses, "take only so many, evenly spread; 0: all");
    app.add_option("--window", chosen.window, "greatest distance of a word's neighbours")->check(at_least_1);
    app.add_option("--least", chosen.least, "occurrences of a word that gets a vector")->check(at_least_1);
    app.add_option("--threshold", chosen.threshold, "thin out words that are a greater part of the text")
        ->check(CLI::Range(1e-9, 1.0));
    app.add_option("--rate", chosen.rate, "learning rate")->check(CLI::Range(1e-9, 1e3));
    app.add_option("--seed", chosen.seed, "of initial values, order of the verses and drawn words");
    app.add_option("--threads", chosen.threads, "to learn with")->check(CLI::Range(std::size_t(1), std::size_t(1024)));
}

/// The text as ids of words, a verse in each vector.
std::vector<std::vector<std::int32_t>> ids_of(std::vector<verse> const& verses, vocabulary const& words) {
    std::vector<std::vector<std::int32_t>> text;
    for (verse const& v : verses) text.push_back(words.ids_of(v.text));
    return text;
}

/// What happened in training.
struct history {
    std::vector<curve::point> loss; // over passes: mean of the pairs since the point before
    double seconds = 0;
    bool interrupted = false;

    /// The mean of the points of the last pass; there must be one.
    double last_loss() const {
        auto const count = std::min(points_in_a_pass, loss.size());
        double sum = 0;
        for (auto const [pass, value] : std::span(loss).last(count)) sum += value;
        return sum / static_cast<double>(count);
    }
};

template <class Model>
history train(Model& model, options const& chosen, std::vector<std::vector<std::int32_t>> text, vocabulary const& words,
              gs::thread_pool& pool) {
    std::mt19937_64 engine(chosen.seed);
    pair_maker make_pairs(words, chosen.threshold, chosen.window);
    history past;
    progress bar(chosen.passes * text.size());
    auto const start = std::chrono::steady_clock::now();
    auto const point_of = [&](std::size_t verse) { return verse * points_in_a_pass / text.size(); };

    pair_batch batch;
    double loss = 0;
    std::size_t pairs = 0;
    for (std::size_t pass = 0; pass < chosen.passes; ++pass) {
        auto const status = [&] {
            return formatted("pass %zu", pass + 1) +
                   (past.loss.empty() ? std::string() : formatted("  loss %.3f", past.last_loss()));
        };
        std::ranges::shuffle(text, engine);
        for (std::size_t i = 0; i < text.size(); ++i) {
            make_pairs.append(text[i], engine, batch);
            bool const mark = point_of(i + 1) > point_of(i);
            if (batch.size() >= chosen.batch || mark) {
                loss += model.learn(batch, pool);
                pairs += batch.size();
                batch.clear();
            }
            bar.advance(1, status);
            if (interrupt::requested()) {
                bar.clear();
                past.interrupted = true;
                return past;
            }
            if (mark && pairs > 0) {
                double const share = static_cast<double>(i + 1) / static_cast<double>(text.size());
                past.loss.push_back({static_cast<double>(pass) + share, loss / static_cast<double>(pairs)});
                loss = 0;
                pairs = 0;
            }
        }
        bar.milestone(status());
    }
    bar.clear();
    past.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return past;
}

/// Vectors of length 1, so that their scalar product is the cosine of the angle between them.
std::vector<float> normalised(std::span<float const> vectors) {
    std::vector<float> unit(vectors.begin(), vectors.end());
    for (std::size_t row = 0; row < unit.size(); row += width) {
        float const length = std::sqrt(dot(&unit[row], &unit[row]));
        for (std::size_t k = row; k < row + width; ++k) unit[k] /= std::max(length, 1e-30f);
    }
    return unit;
}

void print_neighbours(std::string const& word, vocabulary const& words, std::vector<float> const& unit) {
    auto const id = words.id_of(word);
    if (!id) {
        std::printf("%-10s  occurs too rarely\n", word.c_str());
        return;
    }
    std::vector<std::pair<float, std::size_t>> ranked;
    for (std::size_t other = 0; other < words.size(); ++other) {
        if (words.words[other] == word) continue;
        ranked.emplace_back(dot(&unit[static_cast<std::size_t>(*id) * width], &unit[other * width]), other);
    }
    auto const shown = static_cast<std::ptrdiff_t>(std::min(neighbours_shown, ranked.size()));
    std::ranges::partial_sort(ranked, ranked.begin() + shown, std::greater());
    std::printf("%-10s ", word.c_str());
    for (auto const& [cosine, other] : std::span(ranked).first(static_cast<std::size_t>(shown)))
        std::printf(" %s %.2f ", words.words[other].c_str(), static_cast<double>(cosine));
    std::puts("");
}

template <class Rule> int run(Rule rule, options const& chosen, bool as_delivered) {
    interrupt::listen();
    std::vector<verse> const verses = read_verses(chosen.text, chosen.verses);
    vocabulary const words(verses, chosen.least);
    if (words.size() < 2)
        throw data_error("The verses have too few words: less than 2 occur " + std::to_string(chosen.least) +
                         " times.");
    std::printf("%zu verses, %zu words in them, %zu different ones that occur %zu times or more\n", verses.size(),
                words.total, words.size(), chosen.least);

    gs::thread_pool pool(chosen.threads);
    auto const optimizer = gs::make_updater<float>(rule, gs::constant{chosen.rate}, gs::simd_backend{pool});
    skip_gram model(optimizer, words.size(), chosen.seed);
    history const past = train(model, chosen, ids_of(verses, words), words, pool);
    if (past.interrupted) {
        std::fprintf(stderr, "Interrupted: no picture was written.\n");
        return exit_code::interrupted;
    }
    if (past.loss.empty())
        throw data_error("The verses have no pairs of words that occur " + std::to_string(chosen.least) + " times.");
    double const trained = static_cast<double>(chosen.passes * words.total);
    std::printf("%s: %.0f words/s on %zu threads\n\nNearest by the cosine of the angle:\n",
                gs::describe(optimizer).c_str(), trained / past.seconds, chosen.threads);
    std::vector<float> const unit = normalised(model.vectors());
    for (std::string const& word : chosen.words) print_neighbours(word, words, unit);

    plot({formatted("Vectors of %zu words by skip-gram, %s", words.size(), chosen.rule.c_str()),
          "passes",
          static_cast<double>(chosen.passes),
          {{.title = "", .curves = {{chosen.rule, past.loss}}, .key = "", .y_label = "loss of a pair"}}},
         chosen.output);
    std::printf("\nThe loss: %s\nLoss in the last pass: %.3f\n", std::filesystem::absolute(chosen.output).c_str(),
                past.last_loss());
    if (as_delivered && !(past.last_loss() < expected_loss)) {
        std::fprintf(stderr, "That is above the %.2f that this configuration is known to reach: something is wrong.\n",
                     expected_loss);
        return exit_code::failed;
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Learns vectors of words with two sparse tables.");
    declare(app, chosen);
    CLI11_PARSE(app, argc, argv);
    bool const known = as_delivered(
        app, {"--text", "--passes", "--batch", "--verses", "--window", "--least", "--threshold", "--rate"});
    return guarded([&] {
        if (chosen.rule == "adagrad") return run(gs::adagrad{}, chosen, known);
        return run(gs::rowwise_adagrad{}, chosen, known);
    });
}
