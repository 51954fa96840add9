// Trains the demo's network in 16 bits: with a master copy in float it learns as in float; without
// one, updates smaller than half the distance of neighbouring bfloat16 numbers are lost, unless
// rounding is stochastic.
//
// The network computes in float with the values that its 16-bit parameters have; parameters and
// gradients are 16-bit.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "training.hpp"
#include <gradstep/gradstep.hpp>

#include "updater_learners.hpp"

namespace {

/// An optimizer of parameters in another storage than the network's, which computes with copies of
/// them in float.
template <class Optimizer> class learner_of_copies : public learner {
    using storage = typename Optimizer::traits::storage;

public:
    learner_of_copies(Optimizer optimizer, network& net) : optimizer_(optimizer) {
        add(net.hidden.weight, net.hidden.weight_gradient, 0);
        add(net.hidden.bias, net.hidden.bias_gradient, 1);
        add(net.output.weight, net.output.weight_gradient, 2);
        add(net.output.bias, net.output.bias_gradient, 3);
        publish(); // the network begins with what the storage can hold
    }
    void step() override {
        for (copy& one : copies_) {
            for (std::size_t i = 0; i < one.rounded.size(); ++i) one.rounded[i] = storage(one.gradient[i]);
            one.parameter.update(one.rounded);
        }
    }
    void publish() override {
        for (copy& one : copies_) {
            auto const now = one.parameter.values();
            for (std::size_t i = 0; i < now.size(); ++i) one.value[i] = static_cast<float>(now[i]);
        }
    }

private:
    struct copy {
        float* value;
        float const* gradient;
        std::vector<storage> rounded; // the gradient as the optimizer gets it
        gs::parameter<Optimizer> parameter;
    };
    template <class Tensor> void add(Tensor& value, Tensor const& gradient, std::uint64_t id) {
        std::vector<storage> initial(value.size());
        for (std::size_t i = 0; i < initial.size(); ++i) initial[i] = storage(value.data()[i]);
        copies_.push_back({value.data(), gradient.data(), initial, gs::parameter{optimizer_, initial, {.id = id}}});
        memory_ += memory_of<Optimizer>(initial.size());
    }

    Optimizer optimizer_;
    std::vector<copy> copies_;
};

struct options {
    std::string data = "/usr/share/datasets/fashion-mnist";
    std::string output = "mixed_precision.png";
    std::size_t epochs = 5;
    double rate = 2e-4;
};

struct contender {
    std::string name;
    make_learner make;
};

// [elements]
template <class Element> contender in(std::string name, double rate) {
    auto const make = [=](std::span<network> nets, std::int64_t) -> std::unique_ptr<learner> {
        auto const optimizer = gs::make_updater<Element>(gs::adam{}, gs::constant{rate});
        return std::make_unique<learner_of_copies<std::remove_const_t<decltype(optimizer)>>>(optimizer, nets.front());
    };
    return {name, make};
}

std::vector<contender> contenders(double rate) {
    return {
        in<float>("float", rate),                                  // 28 bytes an element and step
        in<gs::mixed<gs::bfloat16>>("bf16 + master", rate),        // 30, and forward passes read half
        in<gs::stochastic<gs::bfloat16>>("bf16 stochastic", rate), // 22
        in<gs::bfloat16>("bf16", rate),                            // 22, and small updates are lost
    };
}
// [elements]

int run(options const& chosen) {
    interrupt::listen();
    data_set const data = read_mnist(std::filesystem::weakly_canonical(chosen.data));
    task const work{data, 128, 128, chosen.epochs, 1};

    auto const all = contenders(chosen.rate);
    panel loss{.title = "Training loss", .curves = {}, .logarithmic = true, .key = below, .y_label = "cross entropy"};
    panel accuracy{.title = "Test accuracy", .curves = {}, .marked = true, .key = "", .y_label = "accuracy (%)"};
    progress bar(all.size() * work.steps());
    std::vector<result> results;
    for (contender const& one : all) {
        auto const outcome = train(one.name, one.make, work, bar);
        bar.clear();
        if (!outcome) return exit_code::interrupted;
        loss.curves.push_back({one.name, outcome->loss});
        accuracy.curves.push_back({one.name, outcome->accuracy});
        results.push_back(*outcome);
    }

    std::puts("\nadam, constant rate   loss at the end   test accuracy   bytes to keep");
    for (result const& r : results)
        std::printf("%-20s %16.4f %13.2f %% %14zu\n", r.name.c_str(), r.loss.back().y, r.test_accuracy(),
                    r.memory.kept());
    plot({"Adam at a constant rate of " + formatted("%g", chosen.rate),
          "epoch",
          static_cast<double>(work.epochs),
          {loss, accuracy}},
         chosen.output);
    std::printf("\nThe curves: %s\n", std::filesystem::absolute(chosen.output).c_str());

    // The first three learn alike; what the last one loses is for the reader to see.
    double const worst = std::min(results[1].test_accuracy(), results[2].test_accuracy());
    if (worst > results[0].test_accuracy() - 2) return 0;
    std::fprintf(stderr, "16 bits lose more than 2 %% of accuracy against float: something is wrong.\n");
    return exit_code::failed;
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Trains in bfloat16: with a master copy, with stochastic rounding, and with neither.");
    app.option_defaults()->always_capture_default();
    app.add_option("--data", chosen.data, "folder with the four files of a data set in MNIST's format");
    app.add_option("--output", chosen.output, "the picture of the curves (PNG)")->check(has_folder);
    app.add_option("--epochs", chosen.epochs, "passes over the data")->check(CLI::Range(1, 1000));
    app.add_option("--rate", chosen.rate, "the learning rate")->check(CLI::PositiveNumber);
    CLI11_PARSE(app, argc, argv);
    return guarded([&] { return run(chosen); });
}
