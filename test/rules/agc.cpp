// Adaptive gradient clipping in numbers that can be checked by hand, and against optax.
#include <golden/row_wise.hpp>
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }
// Numbers are below 8. A step rounds less than 64 times here and there: 37 terms of a sum, 25 other
// operations.
Approx near(double x) { return Approx(x).epsilon(0).margin(2 * golden::steps * 64 * 8 * 0x1p-53); }

} // namespace

TEST_CASE("agc: a gradient is at most a share of the norm of its weights", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::agc{gs::sgd{}, 0.5, 2}, gs::constant{0.25});
    numbers w{3, 4};
    optimizer.next_step()(w, numbers{6, 8}); // the limit is 2.5, the norm 10
    CHECK(w[0] == about(3 - 0.25 * 1.5));
    CHECK(w[1] == about(4 - 0.25 * 2));
    w = {3, 4};
    optimizer.next_step()(w, numbers{1.5, 2}); // at the limit
    CHECK(w == numbers{3 - 0.375, 3.5});
    w = {0, 0};
    optimizer.next_step()(w, numbers{0, -4}); // epsilon in place of the norm
    CHECK(w[1] == about(0.25));
    optimizer.next_step()(w, numbers{0, 0});
    CHECK(w[1] == about(0.25));
}

TEST_CASE("agc with momentum is optax's, of a tensor and of rows", "[rules]") {
    gs::agc const rule{gs::momentum{.mu = 0.5}, 0.25, 0.5};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{golden::rate});
    auto w = golden::sequence(1);
    numbers m(golden::size);
    for (std::size_t k = 0; k < golden::steps; ++k) optimizer.next_step()(w, golden::sequence(k + 2), m);
    for (std::size_t i = 0; i < golden::size; ++i) CHECK(w[i] == near(golden::agc[i]));

    auto start = golden::sequence(1);
    start.resize(9 * 4);
    gs::table table{optimizer, 9, 4, gs::touch_only{}, {.initial = start}};
    std::vector<std::int64_t> const ids{0, 1, 2, 3, 4, 5, 6, 7, 8};
    for (std::size_t k = 0; k < golden::steps; ++k) {
        auto g = golden::sequence(k + 2);
        g.resize(9 * 4);
        table.update(ids, g);
    }
    for (std::size_t r = 0; r < 9; ++r)
        for (std::size_t i = 0; i < 4; ++i)
            CHECK(table.row(static_cast<std::int64_t>(r))[i] == near(golden::agc_of_rows[4 * r + i]));
}

namespace {

// A step of `rule` alone with the gradient times the factor, against a step of agc.
template <class Rule> void compare(Rule const& rule) {
    constexpr std::size_t n = 1001;
    constexpr std::size_t slots = gs::slot_count<Rule>;
    auto clipped = gs::make_updater<float>(gs::agc{rule, 0.125}, gs::constant{0.5});
    auto plain = gs::make_updater<float>(rule, gs::constant{0.5});
    std::vector<float> w(n);
    for (std::size_t i = 0; i < n; ++i) w[i] = std::sin(static_cast<float>(i));
    auto x = w;
    std::array<std::vector<float>, slots> s, t;
    for (auto& slot : s) slot.resize(n);
    std::apply([&](auto&... slot) { clipped.initialize(w, slot...); }, s);
    t = s;
    for (int step = 0; step < 4; ++step) {
        std::vector<float> g(n);
        for (std::size_t i = 0; i < n; ++i) g[i] = std::cos(static_cast<float>(3 * i) + static_cast<float>(step));
        double const limit = 0.125 * gs::global_norm(clipped.backend(), x);
        double const norm = gs::global_norm(clipped.backend(), g);
        REQUIRE(norm > limit);
        auto const factor = static_cast<float>(limit / norm);
        std::apply([&](auto&... slot) { clipped.next_step()(w, g, slot...); }, s);
        std::apply([&](auto&... slot) { plain.next_step({.gradient_scale = double{factor}})(x, g, slot...); }, t);
        CHECK(w == x);
        CHECK(s == t);
    }
}

} // namespace

TEST_CASE("agc is its rule with a scaled gradient, bit for bit", "[rules]") {
    compare(gs::adam{});
    compare(gs::yogi{});  // moments that do not begin at 0
    compare(gs::cocob{}); // five slots, of which one begins as the weight
    compare(gs::ftrl{});
}

TEST_CASE("agc: rows catch up as those of its rule", "[rules]") {
    constexpr std::size_t rows = 3, width = 4;
    numbers start(rows * width, 1.0);
    auto const follow = [&](auto const& rule, auto const& regularizer, auto policy) {
        auto const clipped = gs::make_updater<double>(gs::agc{rule, 0.125}, regularizer,
                                                      gs::exponential{.rate = 0.5, .decay = 0.5, .steps = 4});
        gs::table table{clipped, rows, width, policy, {.initial = start}};
        auto dense = clipped;
        numbers w(width, 1.0);
        std::array<numbers, gs::slot_count<std::remove_cvref_t<decltype(rule)>>> state;
        for (auto& slot : state) slot.resize(width);
        for (int t = 1; t <= 9; ++t) {
            numbers const g{1.0 * t, -2, 0.5, 3};
            bool const here = t % 4 == 1;
            table.update(std::vector<std::int64_t>{here ? 0 : 1}, g);
            auto const step = dense.next_step();
            std::apply([&](auto&... slot) { step(w, here ? g : numbers(width), slot...); }, state);
        }
        auto const row = table.row(0);
        for (std::size_t i = 0; i < width; ++i) CHECK(row[i] == Approx(w[i]).epsilon(1e-13));
    };
    follow(gs::rmsprop{}, gs::decoupled{0.1}, gs::exact{});
    follow(gs::adagrad{}, gs::proximal{gs::l1{0.01}}, gs::exact{});
    follow(gs::adam{}, gs::none{}, gs::replay{10});
}

TEST_CASE("agc describes itself and checks its numbers", "[rules]") {
    CHECK(gs::describe(gs::agc{gs::sgd{}}) == "agc{rule = sgd, clip = 0.01, epsilon = 0.001}");
    CHECK_THROWS_AS(gs::make_updater<float>(gs::agc{gs::sgd{}, 0}, gs::constant{1}), gs::value_error);
    CHECK_THROWS_AS(gs::make_updater<float>(gs::agc{gs::adam{.beta1 = 2}}, gs::constant{1}), gs::value_error);
}
