// word2vec (skip-gram with negative sampling) over arrays of this program, trained by several
// threads at once. In place of Hogwild's unsynchronized updates, which C++ does not define and
// which lose updates, gs::striped gives each row its updates one after the other.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/striped.hpp>

namespace gs = gradstep;

namespace {

constexpr std::size_t topics = 4, words_of_topic = 10, words = topics * words_of_topic, width = 16;
constexpr std::size_t negatives = 5, window = 2, sentence_length = 20, sentences_of_thread = 400, threads = 2;

// Word w belongs to topic w % topics. A sentence has words of one topic.
std::vector<std::int32_t> sentence(std::mt19937& random) {
    std::vector<std::int32_t> out(sentence_length);
    std::size_t const topic = random() % topics;
    for (auto& word : out) word = static_cast<std::int32_t>(random() % words_of_topic * topics + topic);
    return out;
}

float dot(std::span<float const> a, std::span<float const> b) {
    float sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += a[i] * b[i];
    return sum;
}

} // namespace

int main() {
    // [memory]
    std::vector<float> input(words * width), output(words * width); // yours: plain arrays, row by row
    std::mt19937 random(1);
    for (float& w : input) w = std::uniform_real_distribution<float>(-0.5f, 0.5f)(random) / width;

    auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::external{});
    gs::row_updater in_rows{sgd, words, width}, out_rows{sgd, words, width};
    auto const in_memory = in_rows.memory(input), out_memory = out_rows.memory(output);
    gs::striped in{in_rows, in_memory}, out{out_rows, out_memory};
    // [memory]

    std::atomic<std::size_t> seen = 0; // sentences of all threads
    auto const train = [&](unsigned seed) {
        std::mt19937 own(seed);
        std::vector<float> h(width), h_gradient(width), rows((1 + negatives) * width), gradient(rows.size());
        std::vector<std::int32_t> center(1), targets(1 + negatives);
        for (std::size_t s = 0; s < sentences_of_thread; ++s) {
            auto const text = sentence(own);
            double const done = static_cast<double>(seen++) / (threads * sentences_of_thread);
            for (std::size_t at = 0; at < text.size(); ++at)
                for (std::size_t other = at < window ? 0 : at - window; other <= at + window; ++other) {
                    if (other == at || other >= text.size()) continue;
                    center[0] = text[at];
                    targets[0] = text[other];
                    for (std::size_t k = 1; k <= negatives; ++k) targets[k] = static_cast<std::int32_t>(own() % words);
                    // [loop]
                    in.rows(center, h); // copies, each row as a whole
                    out.rows(targets, rows);
                    std::ranges::fill(h_gradient, 0.0f);
                    for (std::size_t k = 0; k < targets.size(); ++k) {
                        std::span const row = std::span(rows).subspan(k * width, width);
                        float const is_context = k == 0 ? 1.0f : 0.0f;
                        float const error = 1 / (1 + std::exp(-dot(h, row))) - is_context;
                        for (std::size_t i = 0; i < width; ++i) {
                            h_gradient[i] += error * row[i];
                            gradient[k * width + i] = error * h[i];
                        }
                    }
                    gs::step_options const options{.rate = 0.05 * (1 - done)};
                    out.update(targets, gradient, options); // all rows of a word in one call
                    in.update(center, h_gradient, options);
                    // [loop]
                }
        }
    };
    {
        std::vector<std::jthread> workers;
        for (unsigned k = 0; k < threads; ++k) workers.emplace_back(train, k + 2);
    }

    // No call runs any more, so that the arrays can be read.
    auto const similarity = [&](std::size_t a, std::size_t b) {
        auto const row = [&](std::size_t word) { return std::span<float const>(input).subspan(word * width, width); };
        return dot(row(a), row(b)) / std::sqrt(dot(row(a), row(a)) * dot(row(b), row(b)));
    };
    float within = 0, between = 0;
    std::size_t pairs_within = 0, pairs_between = 0;
    for (std::size_t a = 0; a < words; ++a)
        for (std::size_t b = 0; b < a; ++b) {
            bool const same = a % topics == b % topics;
            (same ? within : between) += similarity(a, b);
            ++(same ? pairs_within : pairs_between);
        }
    within /= static_cast<float>(pairs_within);
    between /= static_cast<float>(pairs_between);
    std::printf("%lld steps; mean similarity of words: %.2f within a topic, %.2f between topics\n",
                static_cast<long long>(in.clock().step), static_cast<double>(within), static_cast<double>(between));
    return within > between + 0.4f ? 0 : 1;
}
