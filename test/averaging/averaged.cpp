// averaged: one more slot that follows the weight as it is stored.
#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

template <class T> std::vector<T> copy(std::span<T const> x) { return {x.begin(), x.end()}; }
template <class T> double value(T x) { return static_cast<double>(gs::detail::widen(x)); }

} // namespace

TEMPLATE_TEST_CASE("the average follows the stored weight, as a loop in double says", "[core][averaged]", float, double,
                   gs::bfloat16, gs::float16, gs::mixed<gs::bfloat16>, gs::stochastic<gs::bfloat16>) {
    using traits = gs::element_traits<TestType>;
    using storage = typename traits::storage;
    std::size_t const n = 1003;
    double const decay = 0.75;
    auto const check = [&](auto const& backend) {
        // What acts last, the proximal map, has made weights zero that the rule did not.
        auto const regularizer = gs::all_of{gs::l2{0.5}, gs::proximal{gs::l1{0.25}}};
        gs::constant const rate{0.125};
        gs::parameter with{
            gs::make_updater<TestType>(gs::averaged{gs::adam{}, gs::ema{decay}}, regularizer, rate, backend),
            numbers<storage>(n, 1)};
        gs::parameter without{gs::make_updater<TestType>(gs::adam{}, regularizer, rate, backend),
                              numbers<storage>(n, 1)};
        std::vector<double> average(n), error(n);
        for (std::size_t i = 0; i < n; ++i) average[i] = value(with.values()[i]);
        CHECK(copy(with.template state<"average">()).size() == n);
        // The average is held in the type of the state, and each step rounds it once or twice.
        double const u = std::is_same_v<TestType, double> ? 0x1p-53 : 0x1p-24;
        for (std::uint32_t t = 0; t < 20; ++t) {
            auto const g = numbers<storage>(n, 10 + t);
            with.update(g, {.seed = 4});
            without.update(g, {.seed = 4});
            CHECK(same_bits(copy(with.values()), copy(without.values()))); // the rule is as it was
            for (std::size_t i = 0; i < n; ++i) {
                double w = value(with.values()[i]);
                if constexpr (traits::has_master) w = value(with.template state<"master">()[i]);
                average[i] = decay * average[i] + (1 - decay) * w;
                error[i] = decay * error[i] + 2 * u * (std::abs(average[i]) + std::abs(w));
            }
        }
        CHECK(same_bits(copy(with.template state<"m">()), copy(without.template state<"m">())));
        std::size_t wrong = 0, zeros = 0;
        for (std::size_t i = 0; i < n; ++i) {
            wrong += std::abs(value(with.template state<"average">()[i]) - average[i]) > error[i];
            zeros += value(with.values()[i]) == 0;
        }
        CHECK(wrong == 0);
        CHECK(zeros > 0);
    };
    check(gs::serial_backend{});
    check(gs::simd_backend{});
}

TEMPLATE_TEST_CASE("the factors of an average add up to 1", "[core][averaged]", float, double) {
    for (double const decay : {0.5, 0.7, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999}) {
        auto const c = gs::ema{decay}.prepare<TestType>({1, 0});
        CAPTURE(decay);
        CHECK(c.beta == TestType(decay));
        CHECK(static_cast<long double>(c.beta) + static_cast<long double>(c.gain) == 1);
    }
    CHECK(gs::ema{0}.prepare<TestType>({1, 0}).gain == 1);
}

TEST_CASE("the average of a noisy weight in float stays where it is in double", "[core][averaged]") {
    double const decay = GENERATE(0.999, 0.9999);
    std::size_t const n = 16;
    double const beta = static_cast<float>(decay); // the window that float can name
    gs::parameter x{gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{decay}}, gs::constant{1}),
                    std::vector<float>(n, 0.75f)};
    std::vector<double> average(n, 0.75);
    std::vector<float> g(n);
    auto const steps = static_cast<std::uint32_t>(20 / (1 - decay));
    for (std::uint32_t t = 0; t < steps; ++t) {
        auto const noise = numbers<float>(n, t);
        for (std::size_t i = 0; i < n; ++i) g[i] = x.values()[i] - (0.75f + noise[i] / 8); // a rate of 1 takes it there
        x.update(g);
        for (std::size_t i = 0; i < n; ++i) average[i] = beta * average[i] + (1 - beta) * x.values()[i];
    }
    // Weights are in [0.5, 1), and their averages too. A step rounds the average by an error that
    // the noise makes independent of the others and even over [-u / 2, u / 2], u = 2^-24: it has a
    // variance of u^2 / 12, and a weight that falls by beta a step. Six standard deviations of
    // their sum are allowed, and u for the products (1 - beta) * w, whose weights over all steps
    // add up to 1. Factors that miss 1 by 0.2 u, as with an unrounded decay, would shift it by 0.15
    // u / (1 - beta), which is more. Without fma the product beta * average is rounded as well, by
    // up to u / 2, and in one direction for as long as the average hardly moves.
    double const u = 0x1p-24, deviation = u * std::sqrt(1 / 12. / (1 - beta * beta));
    double const allowed = 6 * deviation + u + (GRADSTEP_FMA ? 0 : u / 2 / (1 - beta));
    for (std::size_t i = 0; i < n; ++i) {
        CAPTURE(decay, i, average[i]);
        CHECK(average[i] > 0.5);
        CHECK(average[i] < 1);
        CHECK(std::abs(static_cast<double>(x.state<"average">()[i]) - average[i]) <= allowed);
    }
}

TEST_CASE("the average is a slot after the rule's and before the master copy", "[core][averaged]") {
    auto const optimizer =
        gs::make_updater<gs::mixed<gs::bfloat16>>(gs::averaged{gs::adam{}, gs::ema{0.5}}, gs::constant{1});
    using updater = std::remove_const_t<decltype(optimizer)>;
    CHECK(std::vector<std::string>(updater::state_names.begin(), updater::state_names.end()) ==
          std::vector<std::string>{"m", "v", "average", "master"});
    CHECK(updater::bytes_per_element == 6 + 2 * 16);
    CHECK(gs::describe(optimizer).find("average") != std::string::npos);
}

TEST_CASE("the average starts at the weights, and the rule's slots where the rule says", "[core][averaged]") {
    gs::parameter const x{
        gs::make_updater<float>(gs::averaged{gs::adagrad{.initial_accumulator = 0.25}, gs::ema{}}, gs::constant{1}),
        numbers<float>(9, 1)};
    CHECK(same_bits(copy(x.state<"average">()), numbers<float>(9, 1)));
    CHECK(copy(x.state<"n">()) == std::vector<float>(9, 0.25f));
}

TEST_CASE("averages nest and go around rules without state", "[core][averaged]") {
    gs::parameter x{gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{0}}, gs::constant{1}), std::vector{3.0f}};
    x.update(std::vector{1.0f});
    CHECK(x.state<"average">()[0] == 2); // decay 0: the weight itself
    x.update(std::vector{1.0f}, {.rate = 0});
    CHECK(x.state<"average">()[0] == 2);

    gs::parameter slow{gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{0.5}}, gs::constant{0}),
                       std::vector{3.0f}};
    slow.update(std::vector{1.0f});
    CHECK(slow.state<"average">()[0] == 3);
}

TEST_CASE("an average around an average has a slot and a name of its own", "[core][averaged]") {
    gs::averaged const both{gs::averaged{gs::sgd{}, gs::ema{0.5}}, gs::ema{0.75}};
    gs::parameter x{gs::make_updater<float>(both, gs::constant{1}), std::vector{3.0f}};
    using names = std::vector<std::string>;
    auto const& of_three = decltype(gs::averaged{both, gs::ema{}})::state_names;
    CHECK(names(of_three.begin(), of_three.end()) == names{"average", "average2", "average3"});
    x.update(std::vector{1.0f});
    CHECK(x.values()[0] == 2);
    CHECK(x.state<"average">()[0] == 2.5f);
    CHECK(x.state<"average2">()[0] == 2.75f);
}

TEST_CASE("a row of a table is averaged over the steps that name it", "[core][averaged]") {
    auto const optimizer = gs::make_updater<float>(gs::averaged{gs::momentum{}, gs::ema{0.5}}, gs::constant{0.5});
    gs::table table{optimizer, 10, 3, gs::touch_only{}, {.initial = 1.0}};
    gs::parameter dense{optimizer, std::vector<float>(3, 1)};
    std::vector<float> const g{1, 2, 3};
    for (int t = 0; t < 6; ++t) {
        table.update(std::vector<std::int64_t>{t % 2 ? 4 : 7}, g);
        if (t % 2) dense.update(g);
    }
    CHECK(table.row(4) == copy(dense.values()));
}

TEST_CASE("bad numbers of an average are refused by name", "[core][averaged]") {
    auto const refused = [](auto const& rule) {
        return refusal<gs::value_error>([&] { gs::make_updater<float>(rule, gs::constant{1}); });
    };
    CHECK(refused(gs::averaged{gs::sgd{}, gs::ema{1}}) == "ema.decay: 1 is out of range; expected [0, 1)");
    CHECK(refused(gs::averaged{gs::adam{.beta1 = -1}, gs::ema{}}) == "adam.beta1: -1 is out of range; expected [0, 1)");
}
