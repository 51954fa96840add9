// What every rule does at the edges: gradient 0, rate 0, no epsilon, NaN and infinity, options of a step, resuming.
#include <support/catch.hpp>
#include <support/probe_pack.hpp>
#include <support/registry.hpp>
#include <support/tensors.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

// Whether an oracle says that a step is finite whatever the gradient is, as that of a rule that takes its sign.
template <class Oracle> constexpr bool bounded = requires { requires Oracle::bounded; };
// Whether an oracle says that its rule has a decay of its own.
template <class Oracle, class Rule> bool decays(Rule const& rule) {
    if constexpr (requires { Oracle::decays(rule); }) return Oracle::decays(rule);
    else return false;
}
// Whether an oracle says that earlier rates are in the state, so that a weight moves on at a rate of 0.
template <class Oracle> constexpr bool keeps_rates = requires { requires Oracle::keeps_rates; };

constexpr std::size_t n = 4 * lanes<float> + 3;

// Every step is given its rate.
template <class Element = float, class Backend = gs::simd_backend<>, class Rule>
auto make(Rule rule, Backend backend = Backend{}) {
    return gs::make_updater<Element>(rule, gs::external{}, backend);
}

template <class T> std::vector<T> copy_of(buffer<T> const& x) { return {x.span().begin(), x.span().end()}; }
template <class T> std::string moved(std::vector<T> const& before, buffer<T> const& now) {
    return difference(std::span<T const>(before), now.span(), "weight before and after");
}

template <class X> bool all_finite(X const& x) {
    auto const finite = [](auto const& b) {
        return std::all_of(b.span().begin(), b.span().end(), [](auto value) { return std::isfinite(value); });
    };
    return finite(x.weight) && std::all_of(x.state.begin(), x.state.end(), finite);
}

// The rules of an entry, and the same without their epsilon.
template <class Entry> auto settings_and_no_epsilon() {
    auto rules = settings_of<Entry>();
    if constexpr (requires { rules[0].epsilon; }) {
        rules.push_back(rules[0]);
        rules.back().epsilon = 0;
    }
    return rules;
}

} // namespace

TEMPLATE_LIST_TEST_CASE("without gradient from the initial state nothing moves", "[edges]", registered) {
    for (auto const& rule : settings_and_no_epsilon<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto optimizer = make(rule);
        tensor x(optimizer, n, 1);
        auto const before = copy_of(x.weight);
        for (double const rate : {0.1, 0.0, 3.0, 0.01}) {
            x.set_gradient(0.0);
            x.take(optimizer.next_step({.rate = rate}));
            if (!decays<typename TestType::oracle>(rule)) CHECK(moved(before, x.weight) == "");
        }
        CHECK(all_finite(x));
    }
}

TEMPLATE_LIST_TEST_CASE("without gradient a weight stands still, unless its rule carries it on", "[edges]",
                        registered) {
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto optimizer = make(rule);
        tensor x(optimizer, n, 1);
        x.train(optimizer, 5, {.rate = 0.1});
        [[maybe_unused]] auto const before = copy_of(x.weight);
        for (double const rate : {0.1, 0.05, 0.0, 2.0}) {
            x.set_gradient(0.0);
            x.take(optimizer.next_step({.rate = rate}));
            if constexpr (!TestType::oracle::carries) CHECK(moved(before, x.weight) == "");
            for (float const w : x.weight.span()) CHECK(std::isfinite(w));
        }
    }
}

TEMPLATE_LIST_TEST_CASE("a rate of 0 moves no weight", "[edges]", registered) {
    for (auto const& rule : settings_and_no_epsilon<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto optimizer = make(rule);
        tensor x(optimizer, n, 1);
        for (int round = 0; round < 3; ++round) {
            if constexpr (keeps_rates<typename TestType::oracle>) x.initialize(optimizer);
            auto const before = copy_of(x.weight);
            x.train(optimizer, 4, {.rate = 0});
            CHECK(moved(before, x.weight) == "");
            x.train(optimizer, 1, {.rate_scale = 5, .rate = 0});
            x.train(optimizer, 1, {.rate_scale = 0, .rate = 0.1});
            CHECK(moved(before, x.weight) == "");
            x.train(optimizer, 4, {.rate = 0.05});
            for (float const w : x.weight.span()) CHECK(std::isfinite(w));
        }
    }
}

TEMPLATE_LIST_TEST_CASE("NaN and infinity reach the weight they belong to, and no other unless the rule is row-wise",
                        "[edges]", registered) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto optimizer = make(rule);
        tensor clean(optimizer, n);
        {
            auto copy = optimizer;
            clean.train(copy, 4, {.rate = 0.1});
        }
        for (float const bad : {nan, infinity, -infinity}) {
            for (bool const in_gradient : {true, false}) {
                for (std::size_t const at : {std::size_t{0}, std::size_t{lanes<float>}, n - 2, n - 1}) {
                    CAPTURE(bad, in_gradient, at);
                    auto simd = optimizer;
                    auto serial = make(rule, gs::serial_backend{});
                    tensor x(simd, n, 1);
                    tensor y(serial, n);
                    for (int k = 0; k < 4; ++k) {
                        auto const spoil = [&](auto& tensor, auto& updater) {
                            auto const step = updater.next_step({.rate = 0.1});
                            tensor.set_gradient(step.number());
                            if (k == 1) (in_gradient ? tensor.gradient : tensor.weight)[at] = bad;
                            tensor.take(step);
                        };
                        spoil(x, simd);
                        spoil(y, serial);
                    }
                    bool const stays_finite = bounded<typename TestType::oracle> && in_gradient && !std::isnan(bad);
                    CHECK(std::isfinite(x.weight[at]) == stays_finite);
                    CHECK(difference(x, y) == "");
                    if constexpr (!gs::row_wise_rule<typename TestType::rule>) {
                        x.weight[at] = clean.weight[at];
                        for (std::size_t s = 0; s < x.state.size(); ++s) x.state[s][at] = clean.state[s][at];
                        CHECK(difference(x, clean) == "");
                    }
                }
            }
        }
    }
}

TEMPLATE_LIST_TEST_CASE("gradient_scale equals a gradient scaled before, zero_gradient empties it", "[edges]",
                        registered) {
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto optimizer = make(rule);
        tensor scaled(optimizer, n, 1), expected(optimizer, n, 2);
        for (int k = 0; k < 3; ++k) {
            double const scale = 1.0 / 3;
            auto const folded = optimizer.next_step({.gradient_scale = scale, .zero_gradient = k != 1, .rate = 0.1});
            optimizer.seek({.step = k});
            auto const plain = optimizer.next_step({.rate = 0.1});
            for (auto* x : {&scaled, &expected}) x->set_gradient(folded.number());
            for (float& g : expected.gradient.span()) g *= static_cast<float>(scale);
            scaled.take(folded);
            expected.take(plain);
            bool const empty = std::ranges::all_of(scaled.gradient.span(), [](float g) { return g == 0; });
            CHECK(empty == (k != 1));
        }
        CHECK(difference(scaled, expected) == "");
    }
}

TEMPLATE_LIST_TEST_CASE("saving and restoring in the middle of a run changes no bit", "[edges]", registered) {
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        gs::step_options const options{.samples = 32, .rate = 0.1};
        auto first = make(rule);
        tensor x(first, n, 1);
        x.train(first, 7, options);
        gs::clock const saved = first.clock();
        CHECK(saved == gs::clock{.step = 7, .samples = 7 * 32});

        auto second = make(rule);
        tensor y(second, n, 5);
        std::ranges::copy(x.weight.span(), y.weight.span().begin());
        for (std::size_t s = 0; s < x.state.size(); ++s)
            std::ranges::copy(x.state[s].span(), y.state[s].span().begin());
        second.seek(saved);

        x.train(first, 7, options);
        y.train(second, 7, options);
        CHECK(first.clock() == second.clock());
        CHECK(difference(y, x) == "");
    }
}

TEMPLATE_LIST_TEST_CASE("steps are counted beyond 2^53", "[edges]", registered) {
    constexpr std::int64_t far = (std::int64_t{1} << 53) - 1;
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto optimizer = make(rule);
        optimizer.seek({.step = far, .samples = far});
        tensor x(optimizer, n);
        for (std::int64_t k = 1; k <= 4; ++k) {
            auto const step = optimizer.next_step({.samples = 1, .rate = 0.1});
            CHECK(step.number() == far + k);
            x.set_gradient(k);
            x.take(step);
        }
        CHECK(optimizer.clock() == gs::clock{.step = far + 4, .samples = far + 4});
        CHECK(all_finite(x));
    }
}

TEMPLATE_LIST_TEST_CASE("a rule does not branch on a pack", "[edges]", registered) {
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto probe = make(rule, probe_backend{});
        auto simd = make(rule);
        tensor x(probe, n);
        tensor y(simd, n);
        x.train(probe, 3, {.rate = 0.1});
        y.train(simd, 3, {.rate = 0.1});
        CHECK(difference(x, y) == "");
    }
}
