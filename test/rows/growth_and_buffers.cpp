// Slots of a table that begin at the weight, growth in the middle of a lap, and buffers of a table
// that overlap.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <support/catch.hpp>

namespace gs = gradstep;

namespace {

// Pulls every weight back to where it began.
struct anchored {
    template <class X> struct state { X begin; };
    static constexpr std::array state_names{"begin"};
    template <gs::pack V> GRADSTEP_HD state<V> initialize(V w) const { return {w}; }
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        w = gs::math::fnma(V(c.rate), g + (w - s.begin), w);
    }
};

using ids = std::vector<std::int64_t>;

} // namespace

TEST_CASE("slots that begin at the weight do so in a table") {
    auto const optimizer = gs::make_updater<float>(anchored{}, gs::constant{0.5});
    gs::table table{optimizer, 10, 3, gs::touch_only{}, {.initial = 3.0}};
    table.grow(12);
    for (float const begin : table.state<"begin">()) REQUIRE(begin == 3);
    table.update(ids{4, 11}, std::vector<float>(6));
    CHECK(table.row(4) == std::vector<float>(3, 3.0f)); // nothing pulls it
}

TEST_CASE("a table that grows in the middle of a lap keeps every row young and exact") {
    // The history keeps 2^12 steps in the beginning, and 2^13 for the 5000 rows.
    auto const optimizer = gs::make_updater<double>(gs::sgd{}, gs::decoupled{0.01},
                                                    gs::exponential{.rate = 1, .decay = 0.5, .steps = 5000});
    constexpr std::size_t before = 4096, after = 5000;
    gs::table table{optimizer, before, 1, gs::exact{}, {.initial = 1.0}};
    double right = 1, since_growth = 1;
    auto const step = [&](std::int64_t t) {
        table.update(ids{7}, std::vector<double>{0});
        double const a = 1 - 0.01 * std::pow(0.5, double(t) / 5000);
        right *= a;
        since_growth *= a;
    };
    std::int64_t t = 0;
    while (t < 3000) step(t++);
    table.grow(after);
    since_growth = 1;
    while (t < 14'000) {
        step(t++);
        if (t % 500 != 0) continue;
        std::uint32_t oldest = 0;
        for (std::uint32_t const stamp : table.memory().stamps)
            oldest = std::max(oldest, static_cast<std::uint32_t>(t) - stamp);
        REQUIRE(oldest < 8192);
    }
    // A rounding a step in the product here; in the table one of log a and one of exp, and some at
    // every catch-up.
    double const bound = 14'000 * 4 * 0x1p-53;
    for (std::int64_t const id : {0, 7, 2999, 4095}) CHECK(table.row(id)[0] == Approx(right).epsilon(bound).margin(0));
    for (std::int64_t const id : {4096, 4999}) CHECK(table.row(id)[0] == Approx(since_growth).epsilon(bound).margin(0));
}

TEST_CASE("rows that move, join and disappear in the middle of a lap stay young and exact") {
    // The history keeps 16 steps, and a lap takes 7. Row 0 alone gets gradients, which are zero.
    constexpr std::uint64_t capacity = 16, rows = 600;
    auto const optimizer =
        gs::make_updater<double>(gs::sgd{}, gs::decoupled{0.01}, gs::exponential{.rate = 1, .decay = 0.5, .steps = 50});
    gs::table table{optimizer, rows, 1, gs::exact{}, {.initial = 1.0, .max_history = capacity}};
    std::vector<bool> mask(rows);
    std::vector<std::uint64_t> backwards(rows);
    for (std::size_t i = 0; i < rows; ++i) mask[i] = i % 3 != 1, backwards[i] = rows - 1 - i;
    double right = 1;
    for (std::int64_t t = 0; t < 90; ++t) {
        table.update(ids{0}, std::vector<double>{0});
        right *= 1 - 0.01 * std::pow(0.5, double(t) / 50);
        std::uint32_t oldest = 0;
        for (std::uint32_t const stamp : table.memory().stamps)
            oldest = std::max(oldest, static_cast<std::uint32_t>(t + 1) - stamp);
        CAPTURE(t);
        REQUIRE(oldest <= capacity - 2);
        if (t % 29 != 28) continue; // at another step of a lap each time
        table.keep(mask);
        table.append(std::vector<double>(rows - table.num_rows(), right));
        table.permute(backwards);
    }
    // A rounding a step in the product here; in the table one of log a and one of exp, and some at
    // every catch-up.
    double const bound = 90 * 4 * 0x1p-53;
    for (double const x : table.values()) CHECK(x == Approx(right).epsilon(bound).margin(0));
}

TEST_CASE("buffers of one table overlap neither each other nor what is given or read") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.1});
    gs::row_updater rows{optimizer, 10, 4, gs::replay{5}};
    std::vector<float> w(40), m(40), v(40), out(8);
    std::vector<std::uint32_t> stamps(10);
    CHECK_THROWS_AS(rows.memory(w, m, m, stamps), gs::buffer_error);
    CHECK_THROWS_AS(rows.memory(w, w, v, stamps), gs::buffer_error);
    auto const memory = rows.memory(w, m, v, stamps);
    CHECK_THROWS_AS(rows.update(memory, ids{1, 2}, std::span<float>(m).first(8)), gs::buffer_error);
    CHECK_THROWS_AS(rows.read(memory, ids{1, 2}, std::span<float>(w).first(8)), gs::buffer_error);
    CHECK(rows.clock().step == 0);
    rows.update(memory, ids{1, 2}, out);
    rows.read(memory, ids{1, 2}, out);
    CHECK(rows.clock().step == 1);
}
