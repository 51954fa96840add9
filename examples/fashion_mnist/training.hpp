#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gradstep/adapt/xtensor.hpp>
#include <gradstep/gradstep.hpp>

#include "../common/interrupt.hpp"
#include "../common/plot.hpp"
#include "../common/progress.hpp"
#include "idx.hpp"
#include "network.hpp"

namespace gs = gradstep;

/// What all optimizers get: the same data, network, length of training and seed.
struct task {
    data_set const& data;
    std::size_t hidden, batch, epochs;
    std::uint64_t seed;

    std::size_t batches() const {
        return data.train.size() / batch;
    } // in an epoch; the rest waits for the next shuffle
    std::size_t steps() const { return epochs * batches(); }
};

/// How one optimizer did.
struct result {
    std::string name;
    std::vector<curve::point> loss;     // over epochs: mean loss of the last training batches
    std::vector<curve::point> accuracy; // over epochs: on the test set, in %
    double seconds = 0;                 // in the update, of all steps
    double bytes_per_second = 0;        // that the update reads and writes, in the median step
    std::size_t working_set = 0;        // bytes of parameters, gradients and state

    double test_accuracy() const { return accuracy.back().y; }
};

/// Copies some samples of a set into a batch.
inline void gather(image_set const& set, std::span<std::size_t const> which, batch& out) {
    out.images.resize({which.size(), set.pixels});
    out.labels.resize(which.size());
    for (std::size_t i = 0; i < which.size(); ++i) {
        std::span const pixels(set.images.data() + which[i] * set.pixels, set.pixels);
        std::ranges::transform(pixels, &out.images(i, 0), [](float pixel) { return pixel / 255; });
        out.labels[i] = set.labels[which[i]];
    }
}

inline std::vector<std::size_t> indices(image_set const& set) {
    std::vector<std::size_t> all(set.size());
    std::iota(all.begin(), all.end(), std::size_t(0));
    return all;
}

/// Judges a network by all samples of a set.
inline score evaluate(network& net, image_set const& set) {
    mean_score mean;
    batch samples;
    std::vector<std::size_t> const all = indices(set);
    for (std::span rest = all; !rest.empty();) {
        auto const some = rest.first(std::min<std::size_t>(rest.size(), 1000));
        gather(set, some, samples);
        mean.add(net.forward(samples), some.size());
        rest = rest.subspan(some.size());
    }
    return mean.value();
}

/// A tensor of the network, and as many more of its shape as the optimizer wants for its state.
template <class Optimizer, class Tensor> struct trained {
    Tensor& value;
    Tensor const& gradient;
    std::array<Tensor, Optimizer::slots> state;

    trained(Optimizer const& optimizer, Tensor& v, Tensor const& g) : value(v), gradient(g) {
        state.fill(xt::zeros_like(v));
        std::apply([&](auto&... slot) { optimizer.initialize(value, slot...); }, state);
    }
    gs::slice<Optimizer> slice() {
        return std::apply([&](auto&... slot) { return gs::slice<Optimizer>{value, gradient, slot...}; }, state);
    }
};

/// Trains a fresh network with the given optimizer; nothing if interrupted.
template <class Optimizer>
std::optional<result> train(std::string const& name, Optimizer optimizer, task const& work, progress& bar) {
    std::mt19937_64 engine(work.seed);
    network net(work.data.train.pixels, work.hidden, work.data.classes, engine);

    trained weight1(optimizer, net.hidden.weight, net.hidden.weight_gradient);
    trained bias1(optimizer, net.hidden.bias, net.hidden.bias_gradient);
    trained weight2(optimizer, net.output.weight, net.output.weight_gradient);
    trained bias2(optimizer, net.output.bias, net.output.bias_gradient);
    std::vector model{weight1.slice(), bias1.slice(), weight2.slice(), bias2.slice()};
    model[1].decay = model[3].decay = false; // weight decay is for weights

    result outcome;
    outcome.name = name;
    std::vector<double> seconds;                                             // in the update, of each step
    std::size_t const window = std::max<std::size_t>(1, work.batches() / 5); // batches to a point of the loss curve
    std::vector<std::size_t> order = indices(work.data.train);
    batch samples;

    for (std::size_t epoch = 1; epoch <= work.epochs; ++epoch) {
        std::ranges::shuffle(order, engine);
        mean_score recent;
        for (std::size_t i = 0; i < work.batches(); ++i) {
            gather(work.data.train, std::span(order).subspan(i * work.batch, work.batch), samples);
            if (i % window == 0) recent = {};
            recent.add(net.forward(samples), work.batch);
            net.backward(samples);

            auto const start = std::chrono::steady_clock::now();
            auto step = optimizer.next_step();
            step(model);
            seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());

            bar.advance(1, [&] {
                score const now = recent.value();
                return formatted("%-8s  epoch %2zu  loss %.3f  accuracy %4.1f %%", name.c_str(), epoch, now.loss,
                                 100 * now.accuracy);
            });
            if (interrupt::requested()) return {};
            if ((i + 1) % window == 0) {
                double const share = static_cast<double>(i + 1) / static_cast<double>(work.batches());
                outcome.loss.push_back({static_cast<double>(epoch - 1) + share, recent.value().loss});
            }
        }
        outcome.accuracy.push_back({static_cast<double>(epoch), 100 * evaluate(net, work.data.test).accuracy});
        bar.milestone(formatted("%-8s  epoch %2zu  loss %.3f  test accuracy %4.1f %%", name.c_str(), epoch,
                                outcome.loss.back().y, outcome.test_accuracy()));
    }
    outcome.seconds = std::reduce(seconds.begin(), seconds.end());
    auto const median = seconds.begin() + std::ssize(seconds) / 2;
    std::ranges::nth_element(seconds, median);
    outcome.bytes_per_second = static_cast<double>(net.parameters() * Optimizer::bytes_per_element) / *median;
    outcome.working_set = net.parameters() * (2 + Optimizer::slots) * sizeof(float);
    return outcome;
}
