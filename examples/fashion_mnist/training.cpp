#include "training.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "../common/interrupt.hpp"
#include "../common/program.hpp"
#include "network.hpp"

data_set with_held_out(data_set const& data, std::size_t images) {
    if (images >= data.train.size())
        throw data_error("--held-out: " + std::to_string(images) + " of " + std::to_string(data.train.size()) +
                         " training images leave none to learn from.");
    auto const part = [&](std::size_t begin, std::size_t end) {
        image_set const& all = data.train;
        auto const at = [](auto const& bytes, std::size_t i) { return bytes.begin() + static_cast<std::ptrdiff_t>(i); };
        return image_set{all.pixels,
                         {at(all.images, begin * all.pixels), at(all.images, end * all.pixels)},
                         {at(all.labels, begin), at(all.labels, end)}};
    };
    std::size_t const rest = data.train.size() - images;
    return {part(0, rest), part(rest, data.train.size()), data.classes};
}

void gather(image_set const& set, std::span<std::size_t const> which, batch& out) {
    out.images.resize({which.size(), set.pixels});
    out.labels.resize(which.size());
    for (std::size_t i = 0; i < which.size(); ++i) {
        std::span const pixels(set.images.data() + which[i] * set.pixels, set.pixels);
        std::ranges::transform(pixels, &out.images(i, 0), [](float pixel) { return pixel / 255; });
        out.labels[i] = set.labels[which[i]];
    }
}

std::vector<std::vector<std::size_t>> shards(image_set const& set, std::size_t trainers) {
    std::vector<std::vector<std::size_t>> all(trainers);
    for (std::size_t i = 0; i < set.size(); ++i) all[i % trainers].push_back(i);
    return all;
}

score evaluate(network& net, image_set const& set) {
    mean_score mean;
    batch samples;
    std::vector<std::size_t> const all = shards(set, 1).front();
    for (std::span rest = all; !rest.empty();) {
        auto const some = rest.first(std::min<std::size_t>(rest.size(), 1000));
        gather(set, some, samples);
        mean.add(net.forward(samples), some.size());
        rest = rest.subspan(some.size());
    }
    return mean.value();
}

double median(std::vector<double>& of) {
    auto const middle = of.begin() + std::ssize(of) / 2;
    std::ranges::nth_element(of, middle);
    return *middle;
}

double seconds_of(learner& one) {
    auto const start = std::chrono::steady_clock::now();
    one.step();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::optional<result> train(std::string const& name, make_learner const& make, task const& work, progress& bar,
                            after_training const& after) {
    std::mt19937_64 engine(work.seed);
    std::vector<network> nets(work.trainers, network(work.data.train.pixels, work.hidden, work.data.classes, engine));
    auto const learner = make(nets, static_cast<std::int64_t>(work.steps()));

    result outcome;
    outcome.name = name;
    std::vector<double> seconds;                                             // in the update, of each step
    std::size_t const window = std::max<std::size_t>(1, work.batches() / 5); // batches to a point of the loss curve
    auto orders = shards(work.data.train, work.trainers);
    batch samples;

    for (std::size_t epoch = 1; epoch <= work.epochs; ++epoch) {
        for (auto& order : orders) std::ranges::shuffle(order, engine);
        mean_score recent;
        for (std::size_t i = 0; i < work.batches(); ++i) {
            if (i % window == 0) recent = {};
            for (std::size_t r = 0; r < work.trainers; ++r) {
                gather(work.data.train, std::span(orders[r]).subspan(i * work.batch, work.batch), samples);
                recent.add(nets[r].forward(samples), work.batch);
                nets[r].backward(samples);
            }

            seconds.push_back(seconds_of(*learner));
            learner->publish();

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
        learner->evaluate([&] {
            double const share = evaluate(nets.front(), work.data.test).accuracy;
            outcome.accuracy.push_back({static_cast<double>(epoch), 100 * share});
        });
        bar.milestone(formatted("%-8s  epoch %2zu  loss %.3f  test accuracy %4.1f %%", name.c_str(), epoch,
                                outcome.loss.back().y, outcome.test_accuracy()));
        learner->end_of_epoch();
    }
    outcome.seconds = median(seconds);
    outcome.parameters = nets.front().parameters();
    outcome.memory = learner->memory();
    if (after) after(*learner, nets.front(), outcome);
    return outcome;
}
