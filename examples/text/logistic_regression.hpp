#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../common/plot.hpp"

/// The features of a verse, each with the value 1 / sqrt(number of features) so that all examples
/// have length 1, and the answer.
struct example {
    std::vector<std::int64_t> ids;
    bool answer;
};

/// Examples as an embedding bag takes them: one after another, example i from ids[offsets[i]] to
/// ids[offsets[i + 1]].
struct example_batch {
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> offsets{0};
    std::vector<char> answers;

    explicit example_batch(std::span<example const* const> examples) {
        for (example const* e : examples) {
            ids.insert(ids.end(), e->ids.begin(), e->ids.end());
            offsets.push_back(std::ssize(ids));
            answers.push_back(e->answer);
        }
    }
    std::size_t size() const { return answers.size(); }
    float value_of(std::size_t i) const { return 1 / std::sqrt(static_cast<float>(offsets[i + 1] - offsets[i])); }
};

/// How predictions were judged.
struct score {
    double loss_sum = 0;
    std::size_t right = 0, count = 0;

    /// Adds the log loss of one prediction, log(1 + exp(-logit)) where the answer is true.
    void add(double logit, bool answer) {
        double const against = answer ? -logit : logit;
        loss_sum += std::max(against, 0.0) + std::log1p(std::exp(-std::abs(against))); // exp cannot overflow
        right += (logit > 0) == answer;
        ++count;
    }
    void add(score const& s) {
        loss_sum += s.loss_sum;
        right += s.right;
        count += s.count;
    }
    double loss() const { return loss_sum / static_cast<double>(count); }
    double accuracy() const { return 100 * static_cast<double>(right) / static_cast<double>(count); } // %
};

/// Logistic regression whose weights are a table of width 1: P(answer) = 1 / (1 + exp(-logit)), and
/// logit is the sum of the weights of the features times their value. An example is an embedding
/// bag, so its gradient is one number for all its ids, and nothing as long as the table is ever
/// made.
template <class Table> class logistic_regression {
public:
    std::string name;
    std::vector<curve::point> loss, accuracy, zeros; // over passes; of the window before the point, in %, in %
    score first_pass, window;                        // judged before learning from it
    double seconds = 0;                              // of learning
    std::size_t features = 0;                        // learned from, each time counted

    logistic_regression(std::string of, Table weights) : name(std::move(of)), weights_(std::move(weights)) {}

    /// Progressive validation: the examples are predicted first, and only then learned from.
    void learn(example_batch const& batch, bool is_first_pass) {
        auto const start = std::chrono::steady_clock::now();
        predict(batch);
        score judged;
        gradients_.resize(batch.size());
        for (std::size_t i = 0; i < batch.size(); ++i) {
            judged.add(logits_[i], batch.answers[i]);
            float const probability = 1 / (1 + std::exp(-logits_[i])), target = batch.answers[i] ? 1.0f : 0.0f;
            gradients_[i] = (probability - target) * batch.value_of(i);
        }
        weights_.update(batch.ids, batch.offsets, gradients_);
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

        features += batch.ids.size();
        window.add(judged);
        if (is_first_pass) first_pass.add(judged);
    }

    /// Adds a point to the curves and begins a new window. `touched`: the ids that learning has
    /// seen.
    void mark(double passes, std::vector<std::int64_t> const& touched) {
        loss.push_back({passes, window.loss()});
        accuracy.push_back({passes, window.accuracy()});
        zeros.push_back({passes, 100 * static_cast<double>(std::ranges::count(weights_of(touched), 0.0f)) /
                                     static_cast<double>(touched.size())});
        window = {};
    }

    /// The loss of the window, or of the one before where it has just begun.
    double loss_now() const { return window.count > 0 || loss.empty() ? window.loss() : loss.back().y; }

    /// Judges the predictions of examples without learning from them.
    score judge(example_batch const& batch) {
        predict(batch);
        score judged;
        for (std::size_t i = 0; i < batch.size(); ++i) judged.add(logits_[i], batch.answers[i]);
        return judged;
    }

    std::vector<float> weights_of(std::vector<std::int64_t> const& ids) const {
        std::vector<float> weights(ids.size());
        weights_.rows(ids, weights);
        return weights;
    }

private:
    void predict(example_batch const& batch) {
        row_values_.resize(batch.ids.size());
        weights_.rows(batch.ids, row_values_); // as they are now, with all steps that the rows have missed
        logits_.resize(batch.size());
        for (std::size_t i = 0; i < batch.size(); ++i) {
            double const sum = std::accumulate(row_values_.begin() + batch.offsets[i],
                                               row_values_.begin() + batch.offsets[i + 1], 0.0);
            logits_[i] = static_cast<float>(sum) * batch.value_of(i);
        }
    }

    Table weights_;
    std::vector<float> row_values_, logits_, gradients_;
};
