// LARS in numbers that can be checked by hand, and against optax.
#include <golden/row_wise.hpp>
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }

constexpr gs::lars rule{.mu = 0.5, .trust = 0.25};

} // namespace

TEST_CASE("lars: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{3, -4}, g{-6, 8}, m{-1, -1};
    optimizer.initialize(w, m);
    CHECK(m == numbers{0, 0});
    optimizer.next_step()(w, g, m); // |w| = 5, |g| = 10: the ratio is 1 / 8
    CHECK(m[0] == about(-0.375));
    CHECK(m[1] == about(0.5));
    CHECK(w[0] == about(3.375));
    CHECK(w[1] == about(-4.5)); // along w: |w| = 5.625
    g = {0, 5.625};
    optimizer.next_step()(w, g, m); // the ratio is 1 / 4
    CHECK(m[0] == about(-0.1875));
    CHECK(m[1] == about(0.25 + 0.5 * 0.25 * 5.625));
    CHECK(w[0] == about(3.5625));
    CHECK(w[1] == about(-4.5 - 0.25 - 0.703125));
}

TEST_CASE("lars: epsilon, and l2 inside the norm", "[rules]") {
    auto optimizer =
        gs::make_updater<double>(gs::lars{.mu = 0, .trust = 1, .epsilon = 2.5}, gs::l2{0.5}, gs::constant{0.5});
    numbers w{6, 8}, g{1.5, 2}, m(2); // with the decay g = (4.5, 6), of norm 7.5; |w| = 10
    optimizer.next_step()(w, g, m);
    CHECK(w[0] == about(6 - 0.5 * 4.5));
    CHECK(w[1] == about(8 - 0.5 * 6));
}

TEST_CASE("lars: a norm of 0 makes the ratio 1", "[rules]") {
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{0, 0, 0}, g{1, -2, 0}, m(3);
    optimizer.next_step()(w, g, m); // no weights
    CHECK(w == numbers{-0.5, 1, 0});
    g = {0, 0, 0};
    optimizer.next_step()(w, g, m); // no gradient: the velocity falls
    CHECK(m == numbers{0.25, -0.5, 0});
    CHECK(w == numbers{-0.75, 1.5, 0});
    optimizer.next_step({.rate = 0})(w, g, m); // the rate is in the velocity
    CHECK(w == numbers{-0.875, 1.75, 0});
}

TEST_CASE("lars: a tensor of one element moves by the rate, whatever its gradient is", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::lars{.trust = 0.25}, gs::constant{0.5});
    for (double const gradient : {1e-100, 3.0, 1e100}) {
        numbers w{-2}, g{gradient}, m{0};
        optimizer.next_step()(w, g, m);
        CHECK(w[0] == about(-2 - 0.5 * 0.25 * 2));
    }
}

TEST_CASE("lars: a step scales with weights and gradients, whose squares no float holds", "[rules]") {
    gs::lars const plain{.mu = 0.5, .trust = 0.25};
    std::size_t const n = 5000; // more than a block
    auto const w = golden::sequence(1), g = golden::sequence(2);
    auto const stepped = [&](int of_w, int of_g) {
        auto optimizer = gs::make_updater<float>(plain, gs::constant{0.5});
        std::vector<float> x(n), y(n), m(n);
        for (std::size_t i = 0; i < n; ++i) {
            x[i] = std::ldexp(static_cast<float>(w[i % golden::size]), of_w);
            y[i] = std::ldexp(static_cast<float>(g[i % golden::size]), of_g);
        }
        optimizer.next_step()(x, y, m);
        for (auto* each : {&x, &m})
            for (float& value : *each) value = std::ldexp(value, -of_w);
        return std::pair(x, m);
    };
    // A power of two scales every number of the step exactly: the ratio, too, is a float.
    auto const expected = stepped(0, 0);
    for (auto const& [of_w, of_g] : {std::pair{0, -64}, {0, 65}, {60, 0}, {100, 60}, {-64, 0}, {-90, -90}, {20, -90}}) {
        CAPTURE(of_w, of_g);
        CHECK((stepped(of_w, of_g) == expected));
    }
}

TEST_CASE("lars: a ratio that overflows is the largest number, and idle weights stand", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::lars{.mu = 0, .trust = 1}, gs::constant{1});
    std::vector<float> w{1e30f, 3, -2}, g{1e-15f, 0, 0}, m(3);
    optimizer.next_step()(w, g, m);
    CHECK(w[0] == 1e30f - 1e-15f * std::numeric_limits<float>::max());
    CHECK((w[1] == 3 && w[2] == -2));
}

TEST_CASE("lars is optax's", "[rules]") {
    gs::lars const theirs{.mu = 0.5, .trust = 0.0625, .epsilon = 0.5};
    auto optimizer = gs::make_updater<double>(theirs, gs::l2{0.25}, gs::constant{golden::rate});
    auto w = golden::sequence(1);
    numbers m(golden::size);
    for (std::size_t k = 0; k < golden::steps; ++k) {
        auto const g = golden::sequence(k + 2);
        optimizer.next_step()(w, g, m);
    }
    // Numbers are below 8. A step rounds less than 64 times here and there: 37 terms of a sum, 16
    // other operations.
    for (std::size_t i = 0; i < golden::size; ++i)
        CHECK(w[i] == Approx(golden::lars[i]).epsilon(0).margin(2 * golden::steps * 64 * 8 * 0x1p-53));
}
