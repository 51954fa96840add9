// Rows that catch up against a dense run that gets a gradient of 0 for inactive rows: what rules
// say of g = 0.
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace gs = gradstep;

namespace {

constexpr std::size_t rows = 5, width = 3, steps = 60;

double gradient_of(std::size_t t, std::size_t row, std::size_t i) {
    return std::cos(static_cast<double>(7 * t + 3 * row + i)) * (1 + static_cast<double>(t % 3));
}
// A row in each batch, with gaps of odd and of even numbers of steps; row 4 is there at the first
// and last step only.
std::size_t row_of(std::size_t t) { return t == 1 || t == steps ? 4 : (t * t + t / 3) % 4; }

// Follows a table and the dense run, and says how far weights without gradient moved in a step.
//
// A dense step rounds each number of a row a few times: fewer than 8, of numbers below `largest`;
// and so does catching up. An error grows by no more than the steps that carry it on, each of which
// has a rate below 1. Where replay takes a power of a state's factor, the state of t steps is
// relatively off by 1.33 t + 12 roundings (replay.cpp), and a direction by 1.5 times as many. By
// Cauchy and Schwarz, the directions of adam and its relatives are below 8 here, so that their
// errors, times a rate of at most 0.25, add up to less than (2 t^2 + 36 t) u.
template <class Rule, class Regularizer, class Policy>
double follow(Rule const& rule, Regularizer const& regularizer, Policy const& policy) {
    auto const optimizer = gs::make_updater<double>(
        rule, regularizer, gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 40}, gs::serial_backend{});
    std::vector<double> w(rows * width), g(rows * width);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::sin(static_cast<double>(i));
    gs::table table{optimizer, rows, width, policy, {.initial = w}};

    auto dense = optimizer;
    std::array<std::vector<double>, gs::slot_count<Rule>> state;
    for (auto& slot : state) slot.resize(w.size());
    std::apply([&](auto&... slots) { dense.initialize(w, slots...); }, state);
    double largest = 1, moved = 0;
    for (std::size_t t = 1; t <= steps; ++t) {
        std::size_t const row = row_of(t);
        std::vector<std::int64_t> const ids{static_cast<std::int64_t>(row)};
        std::vector<double> gradient(width);
        for (std::size_t i = 0; i < width; ++i) gradient[i] = gradient_of(t, row, i);
        table.update(ids, gradient);

        auto const before = w;
        std::ranges::fill(g, 0.0);
        std::ranges::copy(gradient, g.begin() + static_cast<std::ptrdiff_t>(row * width));
        auto const step = dense.next_step();
        std::apply([&](auto&... slots) { step(w, g, slots...); }, state);
        for (std::size_t i = 0; i < w.size(); ++i) {
            largest = std::max({largest, std::abs(w[i]), std::abs(g[i])});
            for (auto const& slot : state) largest = std::max(largest, std::abs(slot[i]));
            if (i / width != row) moved = std::max(moved, std::abs(w[i] - before[i]));
        }
        constexpr double u = std::numeric_limits<double>::epsilon() / 2;
        auto const n = static_cast<double>(t);
        double const allowed = (16 * n * n + 36 * n) * u * largest;
        for (std::size_t r = 0; r < rows; ++r) {
            auto const caught_up = table.row(static_cast<std::int64_t>(r));
            for (std::size_t i = 0; i < width; ++i) {
                CAPTURE(t, r, i);
                CHECK(std::abs(caught_up[i] - w[r * width + i]) <= allowed);
            }
        }
    }
    return moved;
}

} // namespace

TEMPLATE_TEST_CASE("rows catch up exactly to the dense run", "[catch_up]", gs::rprop, gs::optimistic_sgd, gs::pnm,
                   gs::cocob, gs::ftml, gs::rmsprop, gs::momentum) {
    bool const moves = follow(TestType{}, gs::none{}, gs::exact{}) > 0.01;
    CHECK(moves == gs::detail::is_linear<TestType>());
    CHECK(follow(TestType{}, gs::decoupled{0.1}, gs::exact{}) > 0.01);
    if constexpr (gs::detail::is_linear<TestType>()) CHECK(follow(TestType{}, gs::l2{0.1}, gs::exact{}) > 0.01);
}

TEMPLATE_TEST_CASE("rows catch up by replay to the dense run", "[replay]", gs::rprop, gs::optimistic_sgd, gs::adabound,
                   gs::ftml, gs::adam, gs::madgrad) {
    follow(TestType{}, gs::none{}, gs::replay{steps});
    CHECK(follow(TestType{}, gs::decoupled{0.1}, gs::replay{steps}) > 0.01);
}
