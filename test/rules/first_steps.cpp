// The first steps of every rule in numbers that can be checked by hand, and where its state begins.
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <cmath>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }

} // namespace

TEST_CASE("sgd: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::sgd{}, gs::constant{0.5});
    numbers w{1}, g{0.25};
    optimizer.next_step()(w, g);
    CHECK(w[0] == 0.875);
}

TEST_CASE("momentum: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::momentum{.mu = 0.5}, gs::constant{0.5});
    numbers w{1}, g{1}, m{0};
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 1);
    CHECK(w[0] == 0.5);
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 1.5);
    CHECK(w[0] == -0.25);
}

TEST_CASE("nesterov: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::nesterov{.mu = 0.5}, gs::constant{0.5});
    numbers w{1}, g{1}, m{0};
    optimizer.next_step()(w, g, m);
    CHECK(w[0] == 0.25); // 1 - 0.5 * (1 + 0.5 * 1)
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 1.5);
    CHECK(w[0] == -0.625); // 0.25 - 0.5 * (1 + 0.5 * 1.5)
}

TEST_CASE("adagrad: first steps and initial accumulator", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::adagrad{.epsilon = 1, .initial_accumulator = 7}, gs::constant{0.5});
    numbers w{1}, g{3}, n{-1};
    optimizer.initialize(w, n);
    CHECK(n[0] == 7);
    optimizer.next_step()(w, g, n);
    CHECK(n[0] == 16);
    CHECK(w[0] == about(1 - 0.5 * 3 / 5));
}

TEST_CASE("adam: first steps", "[rules]") {
    auto optimizer =
        gs::make_updater<double>(gs::adam{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.5}, gs::constant{0.5});
    numbers w{1}, g{2}, m{-1}, v{-1};
    optimizer.initialize(w, m, v);
    CHECK(m[0] == 0);
    CHECK(v[0] == 0);
    optimizer.next_step()(w, g, m, v); // after the corrections m = 2 and v = 4
    CHECK(m[0] == 0.5);
    CHECK(v[0] == 0.5);
    CHECK(w[0] == about(1 - 0.5 * 2 / 2.5));
    g[0] = 0;
    double const before = w[0];
    optimizer.next_step()(w, g, m, v);
    CHECK(m[0] == 0.375);
    CHECK(v[0] == 0.4375);
    CHECK(w[0] == about(before - 0.5 * (0.375 / (1 - 0.5625)) / (std::sqrt(0.4375 / (1 - 0.765625)) + 0.5)));
}

TEST_CASE("adam with decoupled decay is AdamW", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::adam{.epsilon = 0}, gs::decoupled{0.25}, gs::constant{0.5});
    numbers w{2}, g{3}, m{0}, v{0};
    optimizer.next_step()(w, g, m, v);
    CHECK(w[0] == about(2 * (1 - 0.125) - 0.5));
    CHECK(m[0] == about(0.3)); // the state does not see the decay
}

TEST_CASE("ftrl: first steps and initial accumulator", "[rules]") {
    gs::ftrl const rule{.l1 = 1, .l2 = 0.5, .beta = 1, .initial_accumulator = 16};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1, 0.2, 0.04, 0, 0}, g{3, 3, 3, 3, -1}, z(5, 9.0), n(5, 9.0);
    optimizer.initialize(w, z, n);
    CHECK(z == numbers(5, 0.0));
    CHECK(n == numbers(5, 16.0));
    optimizer.next_step()(w, g, z, n);  // where g = 3: q = (1 + 5) / 0.5 + 0.5 = 12.5
    CHECK(w[0] == about(1 - 3 / 12.5)); // h = 3 < p = 12.5
    CHECK(z[0] == about(-w[0] * 12.5 - 1));
    CHECK(w[1] == 0); // p = 2.5 <= 3 <= p + 2 * l1
    CHECK(z[1] == about(3 - 2.5 - 1));
    CHECK(w[2] == about(-(3 - 2 - 0.5) / 12.5)); // 3 > p + 2 * l1 = 2.5
    CHECK(z[2] == about(-w[2] * 12.5 + 1));
    CHECK(w[3] == about(-(3 - 1) / 12.5)); // from 0, |z| = 3 > l1
    CHECK(z[3] == about(3));
    CHECK(w[4] == 0); // |z| = 1 <= l1
    CHECK(z[4] == -1);
}
