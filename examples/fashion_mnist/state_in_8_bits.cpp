// Trains the demo's network with the state of the optimizer in float and in 8 bits, from the same
// seeds, and judges both by the test set: whether what 8 bits lose of the state is anything that
// the network would have learned from.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "../common/program.hpp"
#include "training.hpp"
#include <gradstep/gradstep.hpp>

#include "updater_learners.hpp"

namespace {

constexpr double expected_loss = 0.5; // %, of accuracy, of any rule in the mean over the seeds

struct options {
    std::string data = "/usr/share/datasets/fashion-mnist";
    std::size_t epochs = 10, hidden = 128;
    std::uint64_t seeds = 5;
    double most_lost = expected_loss;
};

struct contender {
    std::string name;
    make_learner in_float, in_8_bits;
};

// [elements]
template <class Element, class Rule> make_learner keeping_state_of(Rule rule, double peak_rate) {
    return [=](std::span<network> nets, std::int64_t steps) -> std::unique_ptr<learner> {
        auto const optimizer = gs::make_updater<Element>(rule, demo_schedule(peak_rate, steps));
        return std::make_unique<learner_in_place<std::remove_const_t<decltype(optimizer)>>>(optimizer, nets.front());
    };
}
template <class Rule> contender with(std::string name, double peak_rate, Rule rule) {
    return {name, keeping_state_of<float>(rule, peak_rate), keeping_state_of<gs::block8<float>>(rule, peak_rate)};
}
// [elements]

/// The results of one rule over all seeds: test accuracies in %, and the bytes of parameters,
/// gradients and state.
struct outcome {
    std::vector<double> in_float, in_8_bits;
    std::size_t bytes_in_float = 0, bytes_in_8_bits = 0;
};

struct spread {
    double mean = 0, deviation = 0; // of the seeds, not of their mean
};
spread spread_of(std::vector<double> const& each) {
    spread out;
    auto const n = static_cast<double>(each.size());
    for (double const x : each) out.mean += x / n;
    for (double const x : each) out.deviation += (x - out.mean) * (x - out.mean);
    out.deviation = each.size() > 1 ? std::sqrt(out.deviation / (n - 1)) : 0;
    return out;
}

double lost(outcome const& of) { return spread_of(of.in_float).mean - spread_of(of.in_8_bits).mean; }

void print_table(std::vector<contender> const& all, std::vector<outcome> const& outcomes, std::uint64_t seeds) {
    std::printf("\ntest accuracy over %llu seeds, %%\n", static_cast<unsigned long long>(seeds));
    std::puts("rule        state in float     in 8 bits        lost     bytes to keep, float / 8 bits");
    for (std::size_t k = 0; k < all.size(); ++k) {
        spread const a = spread_of(outcomes[k].in_float), b = spread_of(outcomes[k].in_8_bits);
        std::printf("%-10s %7.2f +- %.2f  %7.2f +- %.2f %9.2f %14zu / %zu\n", all[k].name.c_str(), a.mean, a.deviation,
                    b.mean, b.deviation, lost(outcomes[k]), outcomes[k].bytes_in_float, outcomes[k].bytes_in_8_bits);
    }
}

int run(options const& chosen, bool judges) {
    interrupt::listen();
    data_set const data = read_mnist(std::filesystem::weakly_canonical(chosen.data));

    std::vector<contender> const all{with("adam", 3e-3, gs::adam{}), with("momentum", 0.1, gs::momentum{}),
                                     with("adagrad", 0.05, gs::adagrad{}), with("lion", 1e-3, gs::lion{})};
    std::vector<outcome> outcomes(all.size());
    progress bar(2 * all.size() * chosen.seeds * task{data, chosen.hidden, 128, chosen.epochs, 1}.steps());
    for (std::size_t k = 0; k < all.size(); ++k)
        for (std::uint64_t seed = 1; seed <= chosen.seeds; ++seed) {
            task const work{data, chosen.hidden, 128, chosen.epochs, seed};
            auto const in_float = train(all[k].name + ", float", all[k].in_float, work, bar);
            auto const in_8_bits = in_float ? train(all[k].name + ", 8 bits", all[k].in_8_bits, work, bar) : in_float;
            bar.clear();
            if (!in_8_bits) return exit_code::interrupted;
            outcomes[k].in_float.push_back(in_float->test_accuracy());
            outcomes[k].in_8_bits.push_back(in_8_bits->test_accuracy());
            outcomes[k].bytes_in_float = in_float->memory.kept();
            outcomes[k].bytes_in_8_bits = in_8_bits->memory.kept();
        }
    print_table(all, outcomes, chosen.seeds);

    for (std::size_t k = 0; k < all.size(); ++k)
        if (judges && lost(outcomes[k]) > chosen.most_lost) {
            std::fprintf(stderr, "%s loses %.2f %% of accuracy in 8 bits, more than %.1f %%: something is wrong.\n",
                         all[k].name.c_str(), lost(outcomes[k]), chosen.most_lost);
            return exit_code::failed;
        }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Trains with the state of the optimizer in float and in 8 bits.");
    app.option_defaults()->always_capture_default();
    app.add_option("--data", chosen.data, "folder with the four files of a data set in MNIST's format");
    app.add_option("--epochs", chosen.epochs, "passes over the data")->check(CLI::Range(1, 1000));
    app.add_option("--hidden", chosen.hidden, "units of the hidden layer")->check(CLI::Range(1, 100000));
    app.add_option("--seeds", chosen.seeds, "trainings of each rule in each")->check(CLI::Range(1, 100));
    auto const* const most =
        app.add_option("--most-lost", chosen.most_lost,
                       "% of accuracy that a rule may lose, or the exit status is not 0; for runs with other "
                       "options than these only where it is given");
    CLI11_PARSE(app, argc, argv);
    bool const judges = most->count() != 0 || as_delivered(app, {"--data", "--epochs", "--hidden", "--seeds"});
    return guarded([&] { return run(chosen, judges); });
}
