// Row-wise Adagrad in numbers that can be checked by hand.
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }

} // namespace

TEST_CASE("rowwise_adagrad: first steps and initial accumulator", "[rules]") {
    auto optimizer =
        gs::make_updater<double>(gs::rowwise_adagrad{.epsilon = 1, .initial_accumulator = 11}, gs::constant{0.5});
    numbers w{1, -2}, g{1, 7}, n{-1};
    optimizer.initialize(w, n);
    CHECK(n[0] == 11);
    optimizer.next_step()(w, g, n); // the mean of the squares is 25
    CHECK(n[0] == 36);
    CHECK(w[0] == about(1 - 0.5 * 1 / 7));
    CHECK(w[1] == about(-2 - 0.5 * 7 / 7));
    g = {8, 0};
    optimizer.next_step()(w, g, n); // 32
    CHECK(n[0] == 68);
    CHECK(w[1] == about(-2.5)); // no gradient of its own
}

TEST_CASE("rowwise_adagrad of width 1 is adagrad", "[rules]") {
    auto row_wise = gs::make_updater<double>(gs::rowwise_adagrad{.epsilon = 0.25}, gs::constant{0.5});
    auto plain = gs::make_updater<double>(gs::adagrad{.epsilon = 0.25}, gs::constant{0.5});
    numbers w{1}, n{0}, expected{1}, expected_n{0};
    for (double const gradient : {3.0, -0.5, 0.25}) {
        numbers g{gradient};
        row_wise.next_step()(w, g, n);
        plain.next_step()(expected, g, expected_n);
        CHECK(n[0] == expected_n[0]); // sums of squares of such numbers are exact
        CHECK(w[0] == about(expected[0]));
    }
}

TEST_CASE("rowwise_adagrad takes the mean over all blocks", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::rowwise_adagrad{.epsilon = 0}, gs::constant{0.5});
    std::vector<float> w(10'001), g(w.size(), -2.0f), n(1);
    optimizer.next_step()(w, g, n);
    CHECK(n[0] == 4);
    CHECK(w == std::vector<float>(w.size(), 0.5f));
}

TEST_CASE("rowwise_adagrad without gradient and epsilon stands still at any rate", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::rowwise_adagrad{.epsilon = 0}, gs::constant{1e6});
    std::vector<float> w{1, -2, 0}, g(3), n(1);
    auto const before = w;
    optimizer.next_step()(w, g, n);
    CHECK(w == before);
    CHECK(n[0] == 0);
}
