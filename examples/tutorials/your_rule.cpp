// The tutorial docs/start/tutorial_your_rule.md: a rule that gradstep does not have against Adam,
// on a small problem.
//
//     your_rule [PICTURE]     .svg or .png

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "../common/plot.hpp"
#include "../common/text.hpp"
#include "cautious_adam.hpp"

// [check]
/// Whether the rule follows its formula, which stands here a second time, in double and for one
/// weight.
bool follows_formula() {
    gs::parameter weight{gs::make_updater<float>(cautious_adam{}, gs::constant{0.01}), std::vector<float>{1}};
    double w = 1, m = 0, v = 0;
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    for (int t = 1; t <= 100; ++t) {
        std::array const g{normal(engine)};
        weight.update(g);
        m = 0.9 * m + 0.1 * g[0];
        v = 0.999 * v + 0.001 * g[0] * g[0];
        double const step = 0.01 * m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
        if (m * g[0] > 0) w -= step;
    }
    return std::fabs(weight.values()[0] - w) < 1e-5;
}
// [check]

// [problem]
/// Logistic regression on features of very different sizes: the loss of all samples, and the
/// gradient of a few.
class problem {
public:
    static constexpr std::size_t features = 100, samples = 5000;

    explicit problem(unsigned seed) {
        std::mt19937 engine(seed);
        std::normal_distribution<float> normal;
        std::vector<float> truth(features);
        for (float& w : truth) w = 3 * normal(engine);
        for (std::size_t i = 0; i < samples; ++i) {
            float score = 0;
            for (std::size_t j = 0; j < features; ++j) {
                float const scale = std::pow(0.01f, static_cast<float>(j) / features); // from 1 down to 0.01
                x_.push_back(scale * normal(engine));
                score += x_.back() * truth[j];
            }
            y_.push_back(score + normal(engine) > 0 ? 1.0f : -1.0f);
        }
    }

    double loss(std::span<float const> w) const {
        double sum = 0;
        for (std::size_t i = 0; i < samples; ++i) sum += std::log1p(std::exp(-static_cast<double>(margin(i, w))));
        return sum / samples;
    }

    void gradient(std::span<float const> w, std::size_t first, std::size_t count, std::span<float> out) const {
        std::ranges::fill(out, 0.0f);
        for (std::size_t i = first; i < first + count; ++i) {
            float const slope = -y_[i] / (1 + std::exp(margin(i, w))) / static_cast<float>(count);
            for (std::size_t j = 0; j < features; ++j) out[j] += slope * x_[i * features + j];
        }
    }

private:
    float margin(std::size_t i, std::span<float const> w) const {
        return y_[i] *
               std::inner_product(w.begin(), w.end(), x_.begin() + static_cast<std::ptrdiff_t>(i * features), 0.0f);
    }
    std::vector<float> x_, y_;
};
// [problem]

// [train]
/// Trains from w = 0 with batches of 50, and records the loss. The same code serves every rule: a
/// rule is a type.
template <class Rule> std::vector<curve::point> trained(Rule rule, double rate, problem const& task) {
    constexpr std::int64_t steps = 1000;
    constexpr std::size_t batch = 50;
    gs::parameter weights{gs::make_updater<float>(rule, gs::cosine{.rate = rate, .steps = steps}),
                          std::vector<float>(problem::features)};
    std::vector<float> gradient(problem::features);
    std::vector<curve::point> losses;
    for (std::int64_t t = 0; t <= steps; ++t) {
        if (t % 20 == 0) losses.push_back({static_cast<double>(t), task.loss(weights.values())});
        task.gradient(weights.values(), static_cast<std::size_t>(t) * batch % problem::samples, batch, gradient);
        weights.update(gradient);
    }
    return losses;
}
// [train]

// [compare]
constexpr std::array rates{0.03, 0.1, 0.2, 0.5, 1.0, 2.0};

/// Prints the final loss at each rate, the mean over five problems, and returns the losses at the
/// best rate.
template <class Rule> curve best_of(std::string const& name, Rule rule, std::vector<problem> const& tasks) {
    curve best;
    std::printf("%-14s", name.c_str());
    for (double const rate : rates) {
        std::vector<curve::point> mean;
        for (problem const& task : tasks) {
            auto const losses = trained(rule, rate, task);
            mean.resize(losses.size());
            for (std::size_t i = 0; i < losses.size(); ++i)
                mean[i] = {losses[i].x, mean[i].y + losses[i].y / static_cast<double>(tasks.size())};
        }
        std::printf("%8.4f", mean.back().y);
        if (best.points.empty() || mean.back().y < best.points.back().y)
            best = {formatted("%s, rate %g", name.c_str(), rate), mean};
    }
    std::printf("\n");
    return best;
}

// [compare]

// [main]
int main(int argc, char** argv) {
    bool const right = follows_formula();
    std::printf("cautious_adam %s its formula\n\n", right ? "follows" : "DOES NOT FOLLOW");

    std::vector<problem> const tasks{problem(1), problem(2), problem(3), problem(4), problem(5)};
    std::printf("final loss at:");
    for (double const rate : rates) std::printf("%8g", rate);
    std::printf("\n");
    curve const adam = best_of("adam", gs::adam{}, tasks), mine = best_of("cautious_adam", cautious_adam{}, tasks);

    if (argc > 1) {
        panel losses{.title = "", .curves = {adam, mine}, .logarithmic = true, .key = below, .y_label = "loss"};
        plot({"Logistic regression, mean of five problems", "step", 1000, {losses}}, argv[1]);
    }
    // The loss starts at log(2) = 0.69.
    return right && adam.points.back().y < 0.1 && mine.points.back().y < 0.1 ? 0 : 1;
}
// [main]
