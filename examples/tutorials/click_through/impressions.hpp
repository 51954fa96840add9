#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// Made-up ad impressions, and logistic regression on their features. All programs of the tutorial
// use them.

// [impression]
// One ad shown to one user. Each feature is a text such as "site=17", and its key is the hash of
// the text.
struct impression {
    std::array<std::uint64_t, 5> keys;
    bool clicked;
    double probability; // of the click, which the model has to find
};
// [impression]

constexpr std::size_t impressions_in_a_step = 100;

// The true effect of a feature on the click, in [-1, 1].
inline double effect_of(std::uint64_t key) { return static_cast<double>(gs::stable_hash(key) >> 11) * 0x1p-52 - 1; }

// [data]
// The impressions of a step. They are the same whenever they are asked for, on every system. There
// are 40 sites and, at any time, 100 ads, one of which is replaced after every 20 steps. Most of a
// million users appear once or twice, and have no effect.
inline std::vector<impression> impressions_of(std::uint64_t step) {
    std::mt19937_64 draw(step + 1);
    auto const uniform = [&] { return static_cast<double>(draw() >> 11) * 0x1p-53; };
    std::vector<impression> out(impressions_in_a_step);
    for (impression& x : out) {
        std::string const site = std::to_string(draw() % 40), ad = std::to_string(step / 20 + draw() % 100);
        double const skewed = uniform() * uniform(); // some users appear more often than others
        x.keys = {gs::stable_hash("bias"), gs::stable_hash("site=" + site), gs::stable_hash("ad=" + ad),
                  gs::stable_hash("site=" + site + ",ad=" + ad),
                  gs::stable_hash("user=" + std::to_string(static_cast<int>(1e6 * skewed)))};
        double const logit = -2 + effect_of(x.keys[1]) + 1.5 * effect_of(x.keys[2]) + effect_of(x.keys[3]);
        x.probability = 1 / (1 + std::exp(-logit));
        x.clicked = uniform() < x.probability;
    }
    return out;
}
// [data]

// [keys]
inline std::vector<std::uint64_t> keys_of(std::vector<impression> const& batch) {
    std::vector<std::uint64_t> keys;
    for (impression const& x : batch) keys.insert(keys.end(), x.keys.begin(), x.keys.end());
    return keys;
}
// [keys]

// The log losses of the model and of the true probabilities.
struct losses {
    double model = 0, truth = 0;
    std::size_t count = 0;

    void add(double probability, impression const& x) {
        auto const loss_of = [&](double p) { return -std::log(x.clicked ? p : 1 - p); };
        model += loss_of(probability);
        truth += loss_of(x.probability);
        ++count;
    }
    double mean() const { return model / static_cast<double>(count); }
    double best() const { return truth / static_cast<double>(count); }
};

// [gradients]
// The gradients of the loss by the weights, one for each key of each impression: the prediction
// minus the label.
inline std::vector<float> gradients_of(std::vector<impression> const& batch, std::vector<float> const& weights,
                                       losses& seen) {
    std::vector<float> gradients;
    auto weight = weights.begin();
    for (impression const& x : batch) {
        float logit = 0;
        for (std::size_t k = 0; k != x.keys.size(); ++k) logit += *weight++;
        float const probability = 1 / (1 + std::exp(-logit));
        seen.add(probability, x);
        gradients.insert(gradients.end(), x.keys.size(), probability - (x.clicked ? 1.0f : 0.0f));
    }
    return gradients;
}
// [gradients]
