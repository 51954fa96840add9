#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../common/plot.hpp"
#include "../common/progress.hpp"
#include "idx.hpp"
#include "learner.hpp"

struct batch;
struct score;

/// What all optimizers get: the same data, network, length of training and seed.
struct task {
    data_set const& data;
    std::size_t hidden, batch, epochs;
    std::uint64_t seed;
    std::size_t trainers = 1; // each with a network, samples of its own, and a batch of them in each step

    std::size_t batches() const {
        return data.train.size() / trainers / batch;
    } // of a trainer in an epoch; the rest waits for the next shuffle
    std::size_t steps() const { return epochs * batches(); }
};

/// How one optimizer did.
struct result {
    std::string name;
    std::vector<curve::point> loss;     // over epochs: mean loss of the last training batches
    std::vector<curve::point> accuracy; // over epochs: on the test set, in %
    double seconds = 0;                 // in the update, of the median step
    double seconds_alone = 0;           // the same with no training between the steps
    double plain_seconds = 0;           // of the same optimizer in plain loops, in turn with it; 0 if there are none
    std::size_t parameters = 0;
    footprint memory;

    double test_accuracy() const { return accuracy.back().y; }
};

/// The last `images` training images in place of the test set, and the others to learn from:
/// hyperparameters that are chosen by them owe nothing to the test set. Throws data_error if none
/// would be left to learn from.
data_set with_held_out(data_set const& data, std::size_t images);

/// Copies some samples of a set into a batch.
void gather(image_set const& set, std::span<std::size_t const> which, batch& out);

/// The samples of each trainer: every so manyth, from one to the next.
std::vector<std::vector<std::size_t>> shards(image_set const& set, std::size_t trainers);

/// Judges a network by all samples of a set.
score evaluate(network& net, image_set const& set);

/// What a program does with the learner and the first network of a training.
using after_training = std::function<void(learner&, network&, result&)>;

/// Trains a fresh network, of which each trainer has a copy, with the optimizer that `make`
/// attaches; nothing if interrupted.
/// Calls `after` while the trained networks are still there.
std::optional<result> train(std::string const& name, make_learner const& make, task const& work, progress& bar,
                            after_training const& after = {});

/// The seconds of one step.
double seconds_of(learner& one);

double median(std::vector<double>& of);
