// LAMB in numbers that can be checked by hand, and against optax.
#include <golden/row_wise.hpp>
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <cmath>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }

} // namespace

TEST_CASE("lamb: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::lamb{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0}, gs::constant{0.5});
    numbers w{3, -4}, g{2, 8}, m{-1, -1}, v{-1, -1};
    optimizer.initialize(w, m, v);
    CHECK(m == numbers{0, 0});
    CHECK(v == numbers{0, 0});
    optimizer.next_step()(w, g, m, v); // after the corrections u = g / |g|, and its norm is sqrt(2)
    CHECK(m == numbers{0.5, 2});
    CHECK(v == numbers{0.5, 8});
    CHECK(w[0] == about(3 - 0.5 * 5 / std::sqrt(2)));
    CHECK(w[1] == about(-4 - 0.5 * 5 / std::sqrt(2)));

    auto const before = w;
    g = {-1, 0};
    optimizer.next_step()(w, g, m, v);
    CHECK(m == numbers{0.125, 1.5});
    CHECK(v == numbers{0.5625, 7});
    double const m_bias = 1 - 0.5625, v_bias = 1 - 0.765625;
    double const u0 = 0.125 / m_bias / std::sqrt(0.5625 / v_bias), u1 = 1.5 / m_bias / std::sqrt(7 / v_bias);
    double const ratio = std::hypot(before[0], before[1]) / std::hypot(u0, u1);
    CHECK(w[0] == about(before[0] - 0.5 * ratio * u0));
    CHECK(w[1] == about(before[1] - 0.5 * ratio * u1));
}

TEST_CASE("lamb: epsilon, and the decay inside the norm", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::lamb{.epsilon = 2, .decay = 0.5}, gs::constant{0.5});
    numbers w{3, 4}, g{2, -6}, m(2), v(2); // u = (2 / 4 + 1.5, -6 / 8 + 2) = (2, 1.25)
    optimizer.next_step()(w, g, m, v);
    double const ratio = 5 / std::hypot(2, 1.25);
    CHECK(w[0] == about(3 - 0.5 * ratio * 2));
    CHECK(w[1] == about(4 - 0.5 * ratio * 1.25));
}

TEST_CASE("lamb: a norm of 0 makes the ratio 1", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::lamb{.epsilon = 0}, gs::constant{0.5});
    numbers w{0, 0, 0}, g{1, -2, 0}, m(3), v(3);
    optimizer.next_step()(w, g, m, v); // no weights
    CHECK(w[0] == about(-0.5));
    CHECK(w[1] == about(0.5));
    CHECK(w[2] == 0);

    numbers x{1, -2}, zero(2), no_m(2), no_v(2);
    optimizer.next_step()(x, zero, no_m, no_v); // nothing to go along
    CHECK(x == numbers{1, -2});
}

TEST_CASE("lamb: a tensor of one element moves by its own size", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::lamb{}, gs::constant{0.5});
    for (double const gradient : {1e-3, 3.0, 1e100}) {
        numbers w{-2}, g{gradient}, m{0}, v{0};
        optimizer.next_step()(w, g, m, v);
        CHECK(w[0] == about(-3));
        optimizer.seek({});
    }
}

TEST_CASE("lamb: a step scales with the weights, whose squares no float holds", "[rules]") {
    std::size_t const n = 5000; // more than a block
    auto const sequence = golden::sequence(1);
    auto const stepped = [&](int scale) {
        auto optimizer = gs::make_updater<float>(gs::lamb{}, gs::constant{0.5});
        std::vector<float> w(n), g(n, 1), m(n), v(n);
        for (std::size_t i = 0; i < n; ++i) w[i] = std::ldexp(static_cast<float>(sequence[i % golden::size]), scale);
        optimizer.next_step()(w, g, m, v);
        for (float& each : w) each = std::ldexp(each, -scale);
        return w;
    };
    auto const expected = stepped(0); // a power of two scales norm, ratio and step exactly
    for (int const scale : {-90, -66, 60, 66, 110}) {
        CAPTURE(scale);
        CHECK(stepped(scale) == expected);
    }
}

TEST_CASE("lamb: a ratio that overflows is the largest number, and idle weights stand", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::lamb{.epsilon = 1}, gs::constant{1});
    std::vector<float> w{1e30f, 3, -2}, g{1e-15f, 0, 0}, m(3), v(3);
    optimizer.next_step()(w, g, m, v);
    CHECK(std::isfinite(w[0]));
    CHECK((w[1] == 3 && w[2] == -2));
}

TEST_CASE("lamb is optax's", "[rules]") {
    gs::lamb const theirs{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.001, .decay = 0.25};
    auto optimizer = gs::make_updater<double>(theirs, gs::constant{golden::rate});
    auto w = golden::sequence(1);
    numbers m(golden::size), v(golden::size);
    for (std::size_t k = 0; k < golden::steps; ++k) {
        auto const g = golden::sequence(k + 2);
        optimizer.next_step()(w, g, m, v);
    }
    // Numbers are below 8. A step rounds less than 64 times here and there: 37 terms of a sum, 25
    // other operations.
    for (std::size_t i = 0; i < golden::size; ++i)
        CHECK(w[i] == Approx(golden::lamb[i]).epsilon(0).margin(2 * golden::steps * 64 * 8 * 0x1p-53));
}
