// Row-wise Adam in numbers that can be checked by hand.
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <cmath>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }

} // namespace

TEST_CASE("rowwise_adam: first steps", "[rules]") {
    auto optimizer =
        gs::make_updater<double>(gs::rowwise_adam{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.5}, gs::constant{0.5});
    numbers w{1, -2}, g{1, 7}, m{-1, -1}, v{-1};
    optimizer.initialize(w, m, v);
    CHECK(m == numbers{0, 0});
    CHECK(v == numbers{0});
    optimizer.next_step()(w, g, m, v); // the mean of the squares is 25; after the corrections m = g and v = 25
    CHECK(m == numbers{0.25, 1.75});
    CHECK(v[0] == 3.125);
    CHECK(w[0] == about(1 - 0.5 * 1 / 5.5));
    CHECK(w[1] == about(-2 - 0.5 * 7 / 5.5));

    auto const before = w;
    g = {4, 0};
    optimizer.next_step()(w, g, m, v);
    CHECK(m == numbers{1.1875, 1.3125});
    CHECK(v[0] == 0.875 * 3.125 + 0.125 * 8);
    double const below = std::sqrt(v[0] / (1 - 0.765625)) + 0.5;
    CHECK(w[0] == about(before[0] - 0.5 * (1.1875 / (1 - 0.5625)) / below));
    CHECK(w[1] == about(before[1] - 0.5 * (1.3125 / (1 - 0.5625)) / below)); // its momentum carries it on
}

TEST_CASE("rowwise_adam of width 1 is adam", "[rules]") {
    auto row_wise = gs::make_updater<double>(gs::rowwise_adam{}, gs::constant{0.5});
    auto plain = gs::make_updater<double>(gs::adam{}, gs::constant{0.5});
    numbers w{1}, m{0}, v{0}, expected{1}, expected_m{0}, expected_v{0};
    for (double const gradient : {3.0, -0.5, 0.25}) {
        numbers g{gradient};
        row_wise.next_step()(w, g, m, v);
        plain.next_step()(expected, g, expected_m, expected_v);
        CHECK(m[0] == expected_m[0]);
        CHECK(v[0] == about(expected_v[0]));
        CHECK(w[0] == about(expected[0]));
    }
}

TEST_CASE("rowwise_adam without gradient and epsilon stands still at any rate", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::rowwise_adam{.epsilon = 0}, gs::constant{1e6});
    std::vector<float> w{1, -2, 0}, g(3), m(3), v(1);
    auto const before = w;
    for (int k = 0; k < 3; ++k) optimizer.next_step()(w, g, m, v);
    CHECK(w == before);
    CHECK(v[0] == 0);
}
