#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "vocabulary.hpp"

namespace gs = gradstep;

constexpr std::size_t width = 64; // of the vectors; known to the compiler, so that it unrolls the loops over them
constexpr std::size_t negatives = 5;
constexpr std::size_t targets = 1 + negatives; // of a pair: the word that was there, and words that were not

/// A word of the text, and a word near it with words drawn at random behind it.
struct pair_batch {
    std::vector<std::int32_t> centers;
    std::vector<std::int32_t> targets; // as many for each center as the constant `targets` says, the true one first

    std::size_t size() const { return centers.size(); }
    void clear() {
        centers.clear();
        targets.clear();
    }
};

/// Makes the pairs of a verse: frequent words are thinned out, and each word is paired with those
/// at a distance of up to 1 to `window`, drawn for each word, so that near words weigh more.
class pair_maker {
public:
    pair_maker(vocabulary const& words, double threshold, std::size_t window)
        : keep_(keep_probabilities(words, threshold)), draw_(words), window_(window) {}

    void append(std::vector<std::int32_t> const& verse, std::mt19937_64& engine, pair_batch& out) {
        std::uniform_real_distribution<double> uniform;
        kept_.clear();
        std::ranges::copy_if(verse, std::back_inserter(kept_), [&](std::int32_t id) {
            double const keep = keep_[static_cast<std::size_t>(id)];
            return keep >= 1 || uniform(engine) < keep;
        });
        for (std::size_t i = 0; i < kept_.size(); ++i) {
            std::size_t const reach = 1 + engine() % window_;
            for (std::size_t j = i - std::min(i, reach); j < std::min(kept_.size(), i + reach + 1); ++j) {
                if (j == i) continue;
                out.centers.push_back(kept_[i]);
                out.targets.push_back(kept_[j]);
                for (std::size_t k = 0; k < negatives; ++k) out.targets.push_back(draw_(engine()));
            }
        }
    }

private:
    std::vector<double> keep_;
    negative_sampler draw_;
    std::size_t window_;
    std::vector<std::int32_t> kept_;
};

/// The scalar product of two vectors. Partial sums side by side, which compilers turn into SIMD; a
/// single one they may not, since that changes the rounding.
inline float dot(float const* a, float const* b) {
    std::array<float, 16> sums{};
    for (std::size_t k = 0; k < width; k += sums.size()) {
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += a[k + i] * b[k + i];
    }
    float total = 0;
    for (float const sum : sums) total += sum;
    return total;
}

/// Skip-gram with negative sampling (Mikolov et al. 2013, arXiv:1310.4546, equation 4): two tables,
/// one of the vectors of the words, one of the vectors by which words are recognised as neighbours.
/// The loss of a pair is
///
///     -log s(in . out_true) - sum over negatives of log s(-in . out_negative),    s(x) = 1 / (1 + exp(-x))
template <class Updater> class skip_gram {
public:
    /// Vectors start small and random, and vectors of neighbours at 0, as in word2vec.
    skip_gram(Updater const& optimizer, std::size_t words, std::uint64_t seed)
        : in_(optimizer, words, width, gs::exact{}, {.initial = gs::uniform{-0.5 / width, 0.5 / width, seed}}),
          out_(optimizer, words, width, gs::exact{}) {}

    /// One step on a batch. Words occur in it many times; the tables sum their gradients. Returns
    /// the sum of the losses before the step.
    double learn(pair_batch const& batch, gs::thread_pool& pool) {
        for (auto* const rows : {&in_rows_, &in_gradients_}) rows->resize(batch.centers.size() * width);
        for (auto* const rows : {&out_rows_, &out_gradients_}) rows->resize(batch.targets.size() * width);
        in_.rows(batch.centers, in_rows_);
        out_.rows(batch.targets, out_rows_);

        constexpr std::size_t parts = 16; // always, so that the loss is the same for any number of threads
        std::array<double, parts> losses{};
        pool.run(parts, [&](std::size_t part) {
            std::size_t const begin = batch.size() * part / parts, end = batch.size() * (part + 1) / parts;
            for (std::size_t i = begin; i < end; ++i) losses[part] += differentiate(i);
        });

        in_.update(batch.centers, in_gradients_);
        out_.update(batch.targets, out_gradients_);
        double total = 0;
        for (double const loss : losses) total += loss;
        return total;
    }

    /// The vectors of the words, one after another.
    std::span<float const> vectors() { return in_.values(); }

private:
    /// The loss of pair i, and its gradients.
    double differentiate(std::size_t i) {
        float const* const in = &in_rows_[i * width];
        float* const in_gradient = &in_gradients_[i * width];
        std::fill_n(in_gradient, width, 0.0f);
        double loss = 0;
        for (std::size_t k = 0; k < targets; ++k) {
            float const* const out = &out_rows_[(i * targets + k) * width];
            float* const out_gradient = &out_gradients_[(i * targets + k) * width];
            float const x = dot(in, out), e = std::exp(-std::abs(x)); // exp cannot overflow
            float const s = (x > 0 ? 1.0f : e) / (1 + e), error = k == 0 ? s - 1 : s;
            loss += static_cast<double>(std::log1p(e) + std::max(k == 0 ? -x : x, 0.0f));
            for (std::size_t j = 0; j < width; ++j) {
                in_gradient[j] += error * out[j];
                out_gradient[j] = error * in[j];
            }
        }
        return loss;
    }

    gs::table<Updater, gs::exact> in_, out_;
    std::vector<float> in_rows_, out_rows_, in_gradients_, out_gradients_;
};
