// novograd, fromage and stable_adamw in numbers that can be checked by hand, and against timm and
// pytorch_optimizer.
#include <golden/row_wise.hpp>
#include <golden/row_wise_torch.hpp>
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }

template <class Rule, class Golden> void compare(Rule const& theirs, Golden const& expected) {
    auto optimizer = gs::make_updater<double>(theirs, gs::constant{golden::rate});
    auto w = golden::sequence(1);
    numbers a(golden::size), b(gs::row_slot_count<Rule> == 0 ? golden::size : 1);
    for (std::size_t k = 0; k < golden::steps; ++k) optimizer.next_step()(w, golden::sequence(k + 2), a, b);
    // Numbers are below 8. A step rounds less than 64 times here and there: 37 terms of a sum, 25
    // other operations.
    for (std::size_t i = 0; i < golden::size; ++i)
        CHECK(w[i] == Approx(expected[i]).epsilon(0).margin(2 * golden::steps * 64 * 8 * 0x1p-53));
}

} // namespace

TEST_CASE("novograd: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(
        gs::novograd{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1, .weight_decay = 0.25}, gs::constant{0.5});
    numbers w{4, -8}, g{3, -4}, m{7, 7}, v{7};
    optimizer.initialize(w, m, v);
    CHECK((m == numbers{0, 0} && v == numbers{0}));
    optimizer.next_step()(w, g, m, v); // |g| = 5
    CHECK(v[0] == 25);
    CHECK(m[0] == about(0.5 + 1));
    CHECK(m[1] == about(-4.0 / 6 - 2));
    CHECK(w[0] == about(4 - 0.75));
    double const before = w[0];
    g = {0, 3};
    optimizer.next_step()(w, g, m, v);
    CHECK(v[0] == 0.75 * 25 + 0.25 * 9);
    CHECK(m[0] == about(0.75 + 0.25 * before));
}

TEST_CASE("novograd begins v with the first gradient that is not 0", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::novograd{}, gs::constant{0.5});
    numbers w{1, 2}, m(2), v(1);
    optimizer.next_step()(w, numbers{0, 0}, m, v);
    CHECK((w == numbers{1, 2} && v[0] == 0));
    optimizer.next_step()(w, numbers{3, 4}, m, v);
    CHECK(v[0] == 25);
}

TEST_CASE("novograd is timm's", "[rules]") {
    compare(gs::novograd{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.001, .weight_decay = 0.25}, golden::novograd);
}

TEST_CASE("fromage: a step, and a norm of 0", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::fromage{}, gs::constant{0.75});
    numbers w{3, 4}, g{0, -10};
    optimizer.next_step()(w, g); // the ratio is 5 / 10, the root 1.25
    CHECK(w[0] == about(3 / 1.25));
    CHECK(w[1] == about((4 + 0.75 * 5) / 1.25));
    numbers zero{0, 0}, one{1, 0};
    optimizer.next_step()(zero, one); // no weights: the ratio is 1
    CHECK(zero[0] == about(-0.75 / 1.25));
    numbers still{0, 0};
    optimizer.next_step()(one, still); // no gradient
    CHECK(one[0] == about(1 / 1.25));
}

TEST_CASE("fromage: min_norm, and rates whose squares no double holds", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::fromage{.min_norm = 2}, gs::constant{0.75});
    numbers w{0, 1}, g{0.5, 0};
    optimizer.next_step()(w, g); // both norms are 2
    CHECK(w[0] == about(-0.375 / 1.25));
    auto fast = gs::make_updater<double>(gs::fromage{}, gs::constant{1e200});
    numbers x{2, 0}, d{1, 0};
    fast.next_step()(x, d);
    CHECK(x[0] == about(-2)); // (2 - lr * 2) / lr
}

TEST_CASE("stable_adamw: a gradient that is large beside its second moment lowers the rate", "[rules]") {
    gs::stable_adamw const rule{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 0, .weight_decay = 0.5};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{4, -4}, m(2), v(2);
    optimizer.next_step()(w, numbers{1, -2}, m, v); // g^2 is the corrected moment: nothing is clipped
    CHECK(w[0] == about(4 - 0.5 * (1 + 0.5 * 4)));
    CHECK(w[1] == about(-4 + 0.5 * (1 + 0.5 * 4)));
    numbers const before = w;
    optimizer.next_step()(w, numbers{8, -8}, m, v);
    double const x = (0.75 * 0.25 + 0.25 * 64) / (1 - 0.5625), y = (0.75 + 0.25 * 64) / (1 - 0.5625);
    double const s = std::sqrt((64 / x + 64 / y) / 2); // second moments, corrected
    REQUIRE(s > 1);
    double const u = (0.5 * 0.5 + 0.5 * 8) / 0.75 / std::sqrt(x);
    CHECK(w[0] == about(before[0] - 0.5 / s * (u + 0.5 * before[0])));
}

TEST_CASE("stable_adamw is pytorch_optimizer's", "[rules]") {
    compare(gs::stable_adamw{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.001, .weight_decay = 0.25},
            golden::stable_adamw);
}

TEST_CASE("stable_adamw without a decay and clipping is adam", "[rules]") {
    auto stable = gs::make_updater<double>(gs::stable_adamw{.beta2 = 0.999, .epsilon = 1e3}, gs::constant{0.5});
    auto plain = gs::make_updater<double>(gs::adam{.epsilon = 1e3}, gs::constant{0.5});
    numbers w{1, 2, 3}, m(3), v(3), x = w, n(3), u(3);
    for (int t = 0; t < 20; ++t) {
        numbers const g{std::sin(t), 1.0 / (t + 1), 0};
        stable.next_step()(w, g, m, v);
        plain.next_step()(x, g, n, u);
    }
    for (std::size_t i = 0; i < 3; ++i) CHECK(w[i] == about(x[i]));
    CHECK(v == u);
}

// A table against one updater for each row, which gets a gradient of 0 in the steps that the row
// misses.
TEMPLATE_TEST_CASE("rows of moments catch up by replay to a dense run", "[rules][replay]", gs::novograd,
                   gs::stable_adamw) {
    constexpr std::size_t rows = 4, width = 3, steps = 40;
    auto const optimizer = gs::make_updater<double>(
        TestType{}, gs::decoupled{0.1}, gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 40}, gs::serial_backend{});
    numbers start(rows * width);
    for (std::size_t i = 0; i < start.size(); ++i) start[i] = std::sin(static_cast<double>(i));
    gs::table table{optimizer, rows, width, gs::replay{steps}, {.initial = start}};
    std::vector<numbers> w(rows), m(rows, numbers(width)),
        v(rows, numbers(gs::row_slot_count<TestType> == 0 ? width : 1));
    for (std::size_t r = 0; r < rows; ++r)
        w[r].assign(start.begin() + std::ptrdiff_t(r * width), start.begin() + std::ptrdiff_t((r + 1) * width));
    auto dense = optimizer;
    double moved = 0;
    for (std::size_t t = 1; t <= steps; ++t) {
        std::size_t const touched = (t * t + t / 3) % 4;
        numbers g(width);
        for (std::size_t i = 0; i < width; ++i) g[i] = std::cos(static_cast<double>(7 * t + 3 * touched + i));
        table.update(std::vector<std::int64_t>{static_cast<std::int64_t>(touched)}, g);
        auto const step = dense.next_step();
        for (std::size_t r = 0; r < rows; ++r) {
            numbers const before = w[r];
            step(w[r], r == touched ? g : numbers(width), m[r], v[r]);
            for (std::size_t i = 0; i < width; ++i)
                if (r != touched) moved = std::max(moved, std::abs(w[r][i] - before[i]));
        }
        for (std::size_t r = 0; r < rows; ++r) {
            auto const caught_up = table.row(static_cast<std::int64_t>(r));
            // The bound of catch_up_each_rule.cpp, with numbers below 8.
            double const n = static_cast<double>(t), allowed = (16 * n * n + 36 * n) * 0x1p-53 * 8;
            for (std::size_t i = 0; i < width; ++i) CHECK(std::abs(caught_up[i] - w[r][i]) <= allowed);
        }
    }
    CHECK(moved > 0.01);
    TestType decaying;
    decaying.weight_decay = 0.5;
    auto const with_decay = gs::make_updater<double>(decaying, gs::constant{0.5});
    if constexpr (std::is_same_v<TestType, gs::novograd>)
        CHECK_THROWS_AS((gs::table{with_decay, rows, width, gs::replay{steps}}), gs::value_error);
    else CHECK_NOTHROW((gs::table{with_decay, rows, width, gs::replay{steps}}));
}
