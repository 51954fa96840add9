// The first steps of every rule in numbers that can be checked by hand, and where its state begins.
#include <support/catch.hpp>

#include <gradstep/averaging/averaged.hpp>
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

TEST_CASE("add_delta: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::add_delta{}, gs::constant{0.5});
    numbers w{1}, g{0.25};
    optimizer.next_step()(w, g);
    CHECK(w[0] == 1.125);
    g[0] = -1;
    optimizer.next_step()(w, g);
    CHECK(w[0] == 0.625);
}

TEST_CASE("momentum: dampening begins with the second step", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::momentum{.mu = 0.5, .dampening = 0.75}, gs::constant{0.5});
    numbers w{1}, g{1}, m{0};
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 1);
    CHECK(w[0] == 0.5);
    optimizer.next_step()(w, g, m); // 0.5 * 1 + 0.25 * 1
    CHECK(m[0] == 0.75);
    CHECK(w[0] == 0.125);
}

TEST_CASE("momentum: the rate inside the buffer stays there when the schedule goes on", "[rules]") {
    gs::momentum const velocity{.mu = 0.5, .rate_place = gs::learning_rate::inside};
    auto inside = gs::make_updater<double>(velocity, gs::external{});
    auto outside = gs::make_updater<double>(gs::momentum{.mu = 0.5}, gs::external{});
    numbers w{1}, m{0}, x{1}, k{0}, g{1};
    inside.next_step({.rate = 0.5})(w, g, m);
    outside.next_step({.rate = 0.5})(x, g, k);
    CHECK(m[0] == -0.5);
    CHECK(w[0] == 0.5);
    CHECK(x[0] == 0.5);
    inside.next_step({.rate = 0.25})(w, g, m);
    outside.next_step({.rate = 0.25})(x, g, k);
    CHECK(m[0] == -0.5); // 0.5 * -0.5 - 0.25 * 1
    CHECK(w[0] == 0);
    CHECK(k[0] == 1.5);
    CHECK(x[0] == 0.125); // 0.5 - 0.25 * 1.5
}

TEST_CASE("momentum: dampening with the rate inside", "[rules]") {
    gs::momentum const rule{.mu = 0.5, .dampening = 0.75, .rate_place = gs::learning_rate::inside};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{1}, m{0};
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == -0.5);
    optimizer.next_step()(w, g, m); // 0.5 * -0.5 - 0.5 * 0.25 * 1
    CHECK(m[0] == -0.375);
    CHECK(w[0] == 0.125);
}

TEST_CASE("nesterov: the rate inside the buffer", "[rules]") {
    gs::nesterov const rule{.mu = 0.5, .rate_place = gs::learning_rate::inside};
    auto optimizer = gs::make_updater<double>(rule, gs::external{});
    numbers w{1}, g{1}, m{0};
    optimizer.next_step({.rate = 0.5})(w, g, m);
    CHECK(m[0] == -0.5);
    CHECK(w[0] == 0.25); // 1 + 0.5 * -0.5 - 0.5 * 1
    optimizer.next_step({.rate = 0.25})(w, g, m);
    CHECK(m[0] == -0.5);  // 0.5 * -0.5 - 0.25 * 1
    CHECK(w[0] == -0.25); // 0.25 + 0.5 * -0.5 - 0.25 * 1; outside it would be -0.1875
}

TEST_CASE("nesterov: dampening begins with the second step", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::nesterov{.mu = 0.5, .dampening = 0.5}, gs::constant{0.5});
    numbers w{1}, g{1}, m{0};
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 1);
    CHECK(w[0] == 0.25);
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 1);    // 0.5 * 1 + 0.5 * 1
    CHECK(w[0] == -0.5); // 0.25 - 0.5 * (1 + 0.5 * 1)
}

TEST_CASE("adagrad: epsilon inside the root", "[rules]") {
    gs::adagrad const rule{.epsilon = 7, .epsilon_place = gs::epsilon::inside};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{3}, n{0};
    optimizer.next_step()(w, g, n);
    CHECK(n[0] == 9);
    CHECK(w[0] == 0.625); // 1 - 0.5 * 3 / 4
    optimizer.next_step()(w, g, n);
    CHECK(n[0] == 18);
    CHECK(w[0] == about(0.625 - 0.5 * 3 / 5));
}

TEST_CASE("two_buffer_adagrad: the squares of a period are added up apart", "[rules]") {
    gs::two_buffer_adagrad const rule{.epsilon = 1, .initial_accumulator = 7, .period = 2};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{3}, n{-1}, sum{-1};
    optimizer.initialize(w, n, sum);
    CHECK(n[0] == 0);
    CHECK(sum[0] == 7);
    optimizer.next_step()(w, g, n, sum);
    CHECK(n[0] == 9);
    CHECK(sum[0] == 7);
    CHECK(w[0] == about(1 - 0.5 * 3 / 5));
    optimizer.next_step()(w, g, n, sum); // the period ends
    CHECK(n[0] == 0);
    CHECK(sum[0] == 25);
    CHECK(w[0] == about(0.7 - 0.5 * 3 / 6));
    g[0] = -12;
    optimizer.next_step()(w, g, n, sum);
    CHECK(n[0] == 144);
    CHECK(sum[0] == 25);
    CHECK(w[0] == about(0.45 + 0.5 * 12 / 14));

    gs::two_buffer_adagrad const other{.epsilon = 9, .initial_accumulator = 7, .epsilon_place = gs::epsilon::inside};
    auto inside = gs::make_updater<double>(other, gs::constant{0.5});
    w[0] = 1, g[0] = 3;
    inside.initialize(w, n, sum);
    inside.next_step()(w, g, n, sum);
    CHECK(w[0] == about(1 - 0.5 * 3 / 5)); // sqrt(7 + 9 + 9)
}

TEST_CASE("two_buffer_adagrad: small squares are not lost in a long sum", "[rules]") {
    gs::two_buffer_adagrad const rule{.period = 1024};
    auto optimizer = gs::make_updater<float>(rule, gs::constant{0});
    auto plain = gs::make_updater<float>(gs::adagrad{}, gs::constant{0});
    std::vector<float> w{0}, g{0.5f}, n{0}, sum{0x1p23f}, lost{0x1p23f}; // 0.25 is a quarter of an ulp
    for (int k = 0; k < 4096; ++k) {
        optimizer.next_step()(w, g, n, sum);
        plain.next_step()(w, g, lost);
    }
    CHECK(n[0] == 0);
    CHECK(sum[0] == 0x1p23f + 1024);
    CHECK(lost[0] == 0x1p23f);
}

TEST_CASE("decayed_adagrad: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::decayed_adagrad{.rho = 0.75, .epsilon = 0.5}, gs::constant{0.5});
    numbers w{1}, g{4}, n{-1};
    optimizer.initialize(w, n);
    CHECK(n[0] == 0);
    optimizer.next_step()(w, g, n);
    CHECK(n[0] == 4);
    CHECK(w[0] == about(0.2)); // 1 - 0.5 * 4 / 2.5
    g[0] = 2;
    optimizer.next_step()(w, g, n);
    CHECK(n[0] == 4); // 0.75 * 4 + 0.25 * 4
    CHECK(w[0] == about(-0.2));
}

TEST_CASE("adadelta: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::adadelta{.rho = 0.75, .epsilon = 16}, gs::constant{0.5});
    numbers w{1}, g{6}, n{-1}, u{-1};
    optimizer.initialize(w, n, u);
    CHECK(n[0] == 0);
    CHECK(u[0] == 0);
    optimizer.next_step()(w, g, n, u); // d = sqrt(0 + 16) / sqrt(9 + 16) * 6
    CHECK(n[0] == 9);
    CHECK(u[0] == about(0.25 * 4.8 * 4.8));
    CHECK(w[0] == about(1 - 0.5 * 4.8));
    g[0] = -1;
    double const d = -std::sqrt(5.76 + 16) / std::sqrt(7 + 16); // u as it was before the step
    optimizer.next_step()(w, g, n, u);
    CHECK(n[0] == 7); // 0.75 * 9 + 0.25
    CHECK(u[0] == about(0.75 * 5.76 + 0.25 * d * d));
    CHECK(w[0] == about(-1.4 - 0.5 * d));
}

TEST_CASE("rmsprop: first steps, initial accumulator, and both positions of epsilon", "[rules]") {
    numbers w{1}, g{4}, n{-1};
    auto outside = gs::make_updater<double>(gs::rmsprop{.rho = 0.75, .epsilon = 0.5}, gs::constant{0.5});
    outside.initialize(w, n);
    CHECK(n[0] == 0);
    outside.next_step()(w, g, n);
    CHECK(n[0] == 4);
    CHECK(w[0] == about(0.2)); // 1 - 0.5 * 4 / 2.5
    g[0] = 2;
    outside.next_step()(w, g, n);
    CHECK(n[0] == 4);
    CHECK(w[0] == about(-0.2));

    gs::rmsprop const rule{.rho = 0.75, .epsilon = 9, .epsilon_place = gs::epsilon::inside, .initial_accumulator = 20};
    auto inside = gs::make_updater<double>(rule, gs::constant{0.5});
    w[0] = 1, g[0] = 2;
    inside.initialize(w, n);
    CHECK(n[0] == 20);
    inside.next_step()(w, g, n);
    CHECK(n[0] == 16);
    CHECK(w[0] == about(0.8)); // 1 - 0.5 * 2 / 5
}

TEST_CASE("centered_rmsprop: first steps, and both positions of epsilon", "[rules]") {
    gs::centered_rmsprop const rule{.rho = 0.75, .epsilon = 1, .epsilon_place = gs::epsilon::inside};
    auto inside = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{4}, n{-1}, a{-1};
    inside.initialize(w, n, a);
    CHECK(n[0] == 0);
    CHECK(a[0] == 0);
    inside.next_step()(w, g, n, a); // variance 4 - 1
    CHECK(n[0] == 4);
    CHECK(a[0] == 1);
    CHECK(w[0] == 0); // 1 - 0.5 * 4 / 2
    g[0] = -2;
    inside.next_step()(w, g, n, a);
    CHECK(n[0] == 4);
    CHECK(a[0] == 0.25);
    CHECK(w[0] == about(0.5 * 2 / std::sqrt(4 - 0.0625 + 1)));

    auto outside = gs::make_updater<double>(gs::centered_rmsprop{.rho = 0.75, .epsilon = 1, .initial_accumulator = 8},
                                            gs::constant{0.5});
    w[0] = 1, g[0] = 4;
    outside.initialize(w, n, a);
    CHECK(n[0] == 8);
    CHECK(a[0] == 0);
    outside.next_step()(w, g, n, a); // variance 10 - 1
    CHECK(w[0] == 0.5);              // 1 - 0.5 * 4 / (3 + 1)
}

TEST_CASE("momentum_rmsprop: the rate outside and inside the buffer", "[rules]") {
    gs::momentum_rmsprop const outside{.rho = 0.75, .epsilon = 0, .mu = 0.5};
    gs::momentum_rmsprop inside = outside;
    inside.rate_place = gs::learning_rate::inside;
    numbers w{1}, g{4}, n{-1}, b{-1};
    auto optimizer = gs::make_updater<double>(outside, gs::external{});
    optimizer.initialize(w, n, b);
    CHECK(b[0] == 0);
    optimizer.next_step({.rate = 0.5})(w, g, n, b);
    CHECK(n[0] == 4);
    CHECK(b[0] == 2); // 4 / 2
    CHECK(w[0] == 0);
    g[0] = 2;
    optimizer.next_step({.rate = 0.25})(w, g, n, b);
    CHECK(b[0] == 2); // 0.5 * 2 + 2 / 2
    CHECK(w[0] == -0.5);

    auto other = gs::make_updater<double>(inside, gs::external{});
    w[0] = 1, g[0] = 4;
    other.initialize(w, n, b);
    other.next_step({.rate = 0.5})(w, g, n, b);
    CHECK(b[0] == 1);
    CHECK(w[0] == 0);
    g[0] = 2;
    other.next_step({.rate = 0.25})(w, g, n, b);
    CHECK(b[0] == 0.75); // 0.5 * 1 + 0.25 * 2 / 2
    CHECK(w[0] == -0.75);
}

TEST_CASE("momentum_rmsprop: epsilon inside, and initial accumulator", "[rules]") {
    gs::momentum_rmsprop const rule{
        .rho = 0.75, .epsilon = 9, .mu = 0.5, .epsilon_place = gs::epsilon::inside, .initial_accumulator = 20};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{2}, n{0}, b{0};
    optimizer.initialize(w, n, b);
    CHECK(n[0] == 20);
    optimizer.next_step()(w, g, n, b);
    CHECK(n[0] == 16);
    CHECK(b[0] == about(0.4)); // 2 / 5
    CHECK(w[0] == about(0.8));
}

TEST_CASE("centered_momentum_rmsprop: first steps", "[rules]") {
    gs::centered_momentum_rmsprop rule{.rho = 0.75, .epsilon = 1, .mu = 0.5, .epsilon_place = gs::epsilon::inside};
    auto optimizer = gs::make_updater<double>(rule, gs::external{});
    numbers w{1}, g{4}, n{-1}, a{-1}, b{-1};
    optimizer.initialize(w, n, a, b);
    CHECK(n[0] == 0);
    CHECK(a[0] == 0);
    CHECK(b[0] == 0);
    optimizer.next_step({.rate = 0.5})(w, g, n, a, b); // variance 4 - 1
    CHECK(n[0] == 4);
    CHECK(a[0] == 1);
    CHECK(b[0] == 2); // 4 / 2
    CHECK(w[0] == 0);
    g[0] = 0;
    optimizer.next_step({.rate = 0.25})(w, g, n, a, b);
    CHECK(n[0] == 3);
    CHECK(a[0] == 0.75);
    CHECK(b[0] == 1);
    CHECK(w[0] == -0.25);

    rule.rate_place = gs::learning_rate::inside;
    auto inside = gs::make_updater<double>(rule, gs::external{});
    w[0] = 1, g[0] = 4;
    inside.initialize(w, n, a, b);
    inside.next_step({.rate = 0.5})(w, g, n, a, b);
    CHECK(b[0] == 1);
    g[0] = 0;
    inside.next_step({.rate = 0.25})(w, g, n, a, b);
    CHECK(b[0] == 0.5);
    CHECK(w[0] == -0.5);
}

TEST_CASE("adam: the three positions of epsilon", "[rules]") {
    // After the first step the corrections are 0.25: m = 1 stands for 4, v = 4 for 16.
    auto const stepped = [](gs::epsilon place, double epsilon) {
        gs::adam const rule{.beta1 = 0.75, .beta2 = 0.75, .epsilon = epsilon, .epsilon_place = place};
        auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
        numbers w{1}, g{4}, m{0}, v{0};
        optimizer.next_step()(w, g, m, v);
        CHECK(m[0] == 1);
        CHECK(v[0] == 4);
        numbers after = w;
        g[0] = 0;
        optimizer.next_step()(w, g, m, v); // 0.75 of 1 and of 4; the corrections are 7 / 16
        after.push_back(w[0]);
        return after;
    };
    double const moment = 0.75 / 0.4375, square = 3 / 0.4375;
    auto const outside = stepped(gs::epsilon::outside, 1);
    CHECK(outside[0] == about(1 - 0.5 * 4 / 5));
    CHECK(outside[1] == about(outside[0] - 0.5 * moment / (std::sqrt(square) + 1)));
    auto const inside = stepped(gs::epsilon::inside, 9);
    CHECK(inside[0] == about(1 - 0.5 * 4 / 5));
    CHECK(inside[1] == about(inside[0] - 0.5 * moment / std::sqrt(square + 9)));
    auto const hat = stepped(gs::epsilon::hat, 0.5);
    CHECK(hat[0] == about(1 - 0.5 * 0.5 / 0.25 * 1 / (2 + 0.5)));
    CHECK(hat[1] == about(hat[0] - 0.5 * std::sqrt(0.4375) / 0.4375 * 0.75 / (std::sqrt(3) + 0.5)));
}

TEST_CASE("amsgrad: the maximum is of raw or of corrected moments", "[rules]") {
    numbers w{1}, g{4}, m{-1}, v{-1}, most{-1};
    auto raw = gs::make_updater<double>(
        gs::amsgrad{.beta1 = 0.75, .beta2 = 0.75, .epsilon = 0, .maximum_of = gs::maximum::raw}, gs::constant{0.5});
    raw.initialize(w, m, v, most);
    CHECK(m[0] == 0);
    CHECK(v[0] == 0);
    CHECK(most[0] == 0);
    raw.next_step()(w, g, m, v, most);
    CHECK(m[0] == 1);
    CHECK(v[0] == 4);
    CHECK(most[0] == 4);
    CHECK(w[0] == about(0.5)); // 1 - 0.5 * 4 / 4
    g[0] = 0;
    raw.next_step()(w, g, m, v, most);
    CHECK(v[0] == 3);
    CHECK(most[0] == 4);
    CHECK(w[0] == about(0.5 - 0.5 * (0.75 / 0.4375) / std::sqrt(4 / 0.4375)));

    auto corrected = gs::make_updater<double>(
        gs::amsgrad{.beta1 = 0.75, .beta2 = 0.75, .epsilon = 0, .maximum_of = gs::maximum::corrected},
        gs::constant{0.5});
    w[0] = 1, g[0] = 4;
    corrected.initialize(w, m, v, most);
    corrected.next_step()(w, g, m, v, most);
    CHECK(v[0] == 4);
    CHECK(most[0] == about(16));
    CHECK(w[0] == about(0.5));
    g[0] = 0;
    corrected.next_step()(w, g, m, v, most);
    CHECK(v[0] == 3);
    CHECK(most[0] == about(16)); // 3 / 0.4375 is less
    CHECK(w[0] == about(0.5 - 0.5 * (0.75 / 0.4375) / 4));
}

TEST_CASE("amsgrad: the positions of epsilon", "[rules]") {
    auto const stepped = [](gs::epsilon place, double epsilon, gs::maximum of) {
        gs::amsgrad const rule{
            .beta1 = 0.75, .beta2 = 0.75, .epsilon = epsilon, .epsilon_place = place, .maximum_of = of};
        auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
        numbers w{1}, g{4}, m{0}, v{0}, most{0};
        optimizer.next_step()(w, g, m, v, most);
        return w[0];
    };
    for (auto const of : {gs::maximum::raw, gs::maximum::corrected}) {
        CHECK(stepped(gs::epsilon::outside, 1, of) == about(0.6)); // 1 - 0.5 * 4 / (4 + 1)
        CHECK(stepped(gs::epsilon::inside, 9, of) == about(0.6));  // 1 - 0.5 * 4 / sqrt(16 + 9)
    }
    CHECK(stepped(gs::epsilon::hat, 0.5, gs::maximum::raw) == about(0.6)); // 1 - 0.5 * 2 / (2 + 0.5)
}

TEST_CASE("nesterov_adam: the correction of this step or of the next", "[rules]") {
    gs::nesterov_adam rule{.beta1 = 0.75, .beta2 = 0.75, .epsilon = 0};
    auto const stepped = [&](numbers const& gradients) {
        auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
        numbers w{1}, m{0}, v{0};
        for (double const gradient : gradients) {
            numbers g{gradient};
            optimizer.next_step()(w, g, m, v);
        }
        return w[0];
    };
    double const c1 = 0.25, c2 = 0.4375, c3 = 1 - 0.421875;
    rule.momentum_bias = gs::momentum_bias::this_step;
    double const first = 1 - 0.5 * (0.75 * 1 / c1 + 0.25 * 4 / c1) / 4; // m = 1, v = 4 for 16
    CHECK(stepped({4}) == about(first));
    CHECK(stepped({4, -2}) == about(first - 0.5 * (0.75 * 0.25 / c2 + 0.25 * -2 / c2) / std::sqrt(4 / c2)));
    rule.momentum_bias = gs::momentum_bias::next_step;
    double const other = 1 - 0.5 * (0.75 * 1 / c2 + 0.25 * 4 / c1) / 4;
    CHECK(stepped({4}) == about(other));
    CHECK(stepped({4, -2}) == about(other - 0.5 * (0.75 * 0.25 / c3 + 0.25 * -2 / c2) / std::sqrt(4 / c2)));

    rule.momentum_bias = gs::momentum_bias::this_step;
    rule.epsilon = 9, rule.epsilon_place = gs::epsilon::inside;
    CHECK(stepped({4}) == about(1 - 0.5 * 7 / 5));
    rule.epsilon = 0.5, rule.epsilon_place = gs::epsilon::hat;
    CHECK(stepped({4}) == about(1 - 0.5 * 7 * 0.5 / 2.5));
    rule.epsilon = 1, rule.epsilon_place = gs::epsilon::outside;
    CHECK(stepped({4}) == about(1 - 0.5 * 7 / 5));
}

TEST_CASE("adamax: first steps, and the positions of epsilon", "[rules]") {
    numbers w{1}, g{4}, m{-1}, u{-1};
    auto outside = gs::make_updater<double>(gs::adamax{.beta1 = 0.75, .beta2 = 0.5, .epsilon = 1}, gs::constant{0.5});
    outside.initialize(w, m, u);
    CHECK(m[0] == 0);
    CHECK(u[0] == 0);
    outside.next_step()(w, g, m, u);
    CHECK(m[0] == 1);
    CHECK(u[0] == 4);
    CHECK(w[0] == about(0.6)); // 1 - 0.5 * 4 / (4 + 1)
    g[0] = 1;
    outside.next_step()(w, g, m, u);
    CHECK(m[0] == 1);
    CHECK(u[0] == 2); // 0.5 * 4 > 1
    CHECK(w[0] == about(0.6 - 0.5 * (1 / 0.4375) / 3));

    auto inside = gs::make_updater<double>(
        gs::adamax{.beta1 = 0.75, .beta2 = 0.5, .epsilon = 1, .epsilon_place = gs::epsilon::inside}, gs::constant{0.5});
    w[0] = 1, g[0] = -4;
    inside.initialize(w, m, u);
    inside.next_step()(w, g, m, u);
    CHECK(u[0] == 5); // |-4| + 1
    CHECK(w[0] == about(1.4));
    g[0] = -1;
    inside.next_step()(w, g, m, u);
    CHECK(m[0] == -1);
    CHECK(u[0] == 2.5); // 0.5 * 5 > 1 + 1
    CHECK(w[0] == about(1.4 + 0.5 * (1 / 0.4375) / 2.5));

    auto accumulated = gs::make_updater<double>(
        gs::adamax{.beta1 = 0.75, .beta2 = 0.5, .epsilon = 1, .epsilon_place = gs::epsilon::accumulated},
        gs::constant{0.5});
    w[0] = 1, g[0] = 4;
    accumulated.initialize(w, m, u);
    accumulated.next_step()(w, g, m, u);
    CHECK(u[0] == 4); // 0.5 * 0 + 1 is less
    CHECK(w[0] == about(0.5));
    g[0] = 1;
    accumulated.next_step()(w, g, m, u);
    CHECK(m[0] == 1);
    CHECK(u[0] == 3); // 0.5 * 4 + 1 > 1
    CHECK(w[0] == about(0.5 - 0.5 * (1 / 0.4375) / 3));
}

TEST_CASE("nadam: first steps without a decay of the momentum", "[rules]") {
    gs::nadam const rule{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 0, .momentum_decay = 0}; // mu = 0.25 at every step
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{4}, m{-1}, v{-1};
    optimizer.initialize(w, m, v);
    CHECK(m[0] == 0);
    CHECK(v[0] == 0);
    optimizer.next_step()(w, g, m, v);
    CHECK(m[0] == 2);
    CHECK(v[0] == 4);
    double const first = 1 - 0.5 * (0.25 * 2 / (1 - 0.0625) + 0.75 * 4 / (1 - 0.25)) / 4;
    CHECK(w[0] == about(first));
    g[0] = -2;
    optimizer.next_step()(w, g, m, v);
    CHECK(m[0] == 0);
    CHECK(v[0] == 4);
    CHECK(w[0] == about(first + 0.5 * (0.75 * 2 / (1 - 0.0625)) / std::sqrt(4 / 0.4375)));
}

TEST_CASE("nadam: the schedule of the momentum, and the positions of epsilon", "[rules]") {
    gs::nadam rule{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1, .momentum_decay = 2};
    auto const mu = [](int t) { return 0.5 * (1 - 0.5 * std::pow(0.96, 2 * t)); };
    auto const stepped = [&] {
        auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
        numbers w{1}, g{4}, m{0}, v{0};
        optimizer.next_step()(w, g, m, v);
        return w[0];
    };
    double const ahead = mu(2) * 2 / (1 - mu(1) * mu(2)) + (1 - mu(1)) * 4 / (1 - mu(1)); // v = 4 for 16
    CHECK(stepped() == about(1 - 0.5 * ahead / (4 + 1)));
    rule.epsilon = 9, rule.epsilon_place = gs::epsilon::inside;
    CHECK(stepped() == about(1 - 0.5 * ahead / 5));
    rule.epsilon = 0.5, rule.epsilon_place = gs::epsilon::hat;
    CHECK(stepped() == about(1 - 0.5 * ahead * 0.5 / (2 + 0.5)));
}

TEST_CASE("radam: plain momentum while the variance is not to be trusted, then rectified", "[rules]") {
    // The longest average is 2 / 0.25 - 1 = 7; rho_t = 7 - 2 * t * 0.75^t / (1 - 0.75^t) exceeds 5
    // from t = 8 on.
    gs::radam rule{.beta1 = 0.75, .beta2 = 0.75, .epsilon = 0};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{4}, m{-1}, v{-1};
    optimizer.initialize(w, m, v);
    CHECK(m[0] == 0);
    CHECK(v[0] == 0);
    optimizer.next_step()(w, g, m, v);
    CHECK(m[0] == 1);
    CHECK(v[0] == 4);
    CHECK(w[0] == about(-1)); // 1 - 0.5 * 4
    auto const stepped = [&](std::int64_t t) {
        auto other = gs::make_updater<double>(rule, gs::constant{0.5});
        other.seek({.step = t - 1});
        numbers x{1}, zero{0}, first{4}, second{16};
        other.next_step()(x, zero, first, second);
        return x[0];
    };
    double const at_7 = 1 - std::pow(0.75, 7), at_8 = 1 - std::pow(0.75, 8);
    CHECK(stepped(7) == about(1 - 0.5 * 3 / at_7));
    double const rho = 7 - 2 * 8 * std::pow(0.75, 8) / at_8;
    double const r = std::sqrt((rho - 4) * (rho - 2) * 7 / (3.0 * 5 * rho));
    CHECK(stepped(8) == about(1 - 0.5 * r * 3 / at_8 / std::sqrt(12 / at_8)));
    rule.epsilon = 1;
    CHECK(stepped(8) == about(1 - 0.5 * r * 3 / at_8 / (std::sqrt(12 / at_8) + 1)));
    rule.epsilon_place = gs::epsilon::inside;
    CHECK(stepped(8) == about(1 - 0.5 * r * 3 / at_8 / std::sqrt(12 / at_8 + 1)));
    rule.epsilon_place = gs::epsilon::hat;
    CHECK(stepped(8) == about(1 - 0.5 * r * std::sqrt(at_8) * 3 / at_8 / (std::sqrt(12) + 1)));
}

TEST_CASE("radam with a short memory is never rectified", "[rules]") {
    gs::radam const rule{.beta1 = 0.75, .beta2 = 0.5, .epsilon = 1}; // the longest average is 3
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    optimizer.seek({.step = 99'999});
    numbers w{1}, g{0}, m{4}, v{16};
    optimizer.next_step()(w, g, m, v);
    CHECK(w[0] == about(1 - 0.5 * 3));
}

TEST_CASE("adabelief: first steps, and both of its epsilons", "[rules]") {
    gs::adabelief const rule{.beta1 = 0.75, .beta2 = 0.75, .epsilon = 1, .epsilon_root = 1.75};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{4}, m{-1}, s{-1};
    optimizer.initialize(w, m, s);
    CHECK(m[0] == 0);
    CHECK(s[0] == 0);
    optimizer.next_step()(w, g, m, s);
    CHECK(m[0] == 1);
    CHECK(s[0] == 4);          // 0.25 * (4 - 1)^2 + 1.75
    CHECK(w[0] == about(0.6)); // 1 - 0.5 * 4 / (4 + 1)
    g[0] = 0;
    optimizer.next_step()(w, g, m, s);
    CHECK(m[0] == 0.75);
    CHECK(s[0] == 4.890625); // 0.75 * 4 + 0.25 * 0.75^2 + 1.75: epsilon is in the state
    CHECK(w[0] == about(0.6 - 0.5 * (0.75 / 0.4375) / (std::sqrt(4.890625 / 0.4375) + 1)));
}

TEST_CASE("yogi: first steps, and both moments start at the accumulator", "[rules]") {
    gs::yogi const rule{.beta1 = 0.75, .beta2 = 0.75, .epsilon = 1, .initial_accumulator = 1};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{3}, m{0}, v{0};
    optimizer.initialize(w, m, v);
    CHECK(m[0] == 1);
    CHECK(v[0] == 1);
    optimizer.next_step()(w, g, m, v);
    CHECK(m[0] == 1.5);  // 0.75 * 1 + 0.25 * 3
    CHECK(v[0] == 3.25); // 1 < 9: grows by 0.25 * 9
    double const first = 1 - 0.5 * 6 / (std::sqrt(13) + 1);
    CHECK(w[0] == about(first));
    g[0] = 0.5;
    optimizer.next_step()(w, g, m, v);
    CHECK(m[0] == 1.25);
    CHECK(v[0] == 3.1875); // 3.25 > 0.25: falls by 0.25 * 0.25
    CHECK(w[0] == about(first - 0.5 * (1.25 / 0.4375) / (std::sqrt(3.1875 / 0.4375) + 1)));
    v[0] = 4, g[0] = -2;
    optimizer.next_step()(w, g, m, v);
    CHECK(v[0] == 4); // they are equal, and sgn(0) = 0
}

TEST_CASE("lion: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::lion{.beta1 = 0.75, .beta2 = 0.5}, gs::constant{0.5});
    numbers w{1}, g{4}, m{-1};
    optimizer.initialize(w, m);
    CHECK(m[0] == 0);
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 2);
    CHECK(w[0] == 0.5);
    g[0] = -4;
    optimizer.next_step()(w, g, m); // along 0.75 * 2 - 0.25 * 4 = 0.5
    CHECK(m[0] == -1);
    CHECK(w[0] == 0);
    g[0] = 3;
    optimizer.next_step()(w, g, m); // along -0.75 + 0.75 = 0: nowhere
    CHECK(m[0] == 1);
    CHECK(w[0] == 0);
    g[0] = -8;
    optimizer.next_step()(w, g, m);
    CHECK(w[0] == 0.5);
}

TEST_CASE("adan: first steps, of which the second sees the difference of the gradients", "[rules]") {
    for (bool const of_optax : {false, true}) {
        gs::adan rule{.beta1 = 0.5, .beta2 = 0.25, .beta3 = 0.75, .epsilon = 1};
        if (of_optax) rule.difference_weight = gs::difference_weight::one_minus_beta2;
        double const k = of_optax ? 0.75 : 0.25;
        auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
        numbers w{1}, g{4}, m{-1}, d{-1}, n{-1}, p{-1};
        optimizer.initialize(w, m, d, n, p);
        optimizer.next_step()(w, g, m, d, n, p);
        CHECK(m[0] == 2);
        CHECK(d[0] == 0); // no gradient before the first
        CHECK(n[0] == 4);
        CHECK(p[0] == 4);
        CHECK(w[0] == about(0.6)); // 1 - 0.5 * 4 / (4 + 1)
        g[0] = 8;
        optimizer.next_step()(w, g, m, d, n, p);
        CHECK(m[0] == 5);
        CHECK(d[0] == 3);                                           // 0.75 * (8 - 4)
        double const second = 3 + 0.25 * (8 + k * 4) * (8 + k * 4); // 0.75 * 4 + ...
        CHECK(n[0] == second);
        CHECK(p[0] == 8);
        CHECK(w[0] == about(0.6 - 0.5 * (5 / 0.75 + k * 3 / 0.9375) / (std::sqrt(second / 0.4375) + 1)));
    }
}

TEST_CASE("adan: epsilon_root is inside the corrected root", "[rules]") {
    gs::adan const rule{.beta1 = 0.5, .beta2 = 0.25, .beta3 = 0.75, .epsilon = 1, .epsilon_root = 9};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{4}, m{0}, d{0}, n{0}, p{0};
    optimizer.next_step()(w, g, m, d, n, p);
    CHECK(w[0] == about(1 - 0.5 * 4 / (std::sqrt(16 + 9) + 1)));
}

TEST_CASE("laprop: first steps", "[rules]") {
    gs::laprop const rule{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{3}, m{-1}, v{-1};
    optimizer.initialize(w, m, v);
    optimizer.next_step()(w, g, m, v);
    CHECK(v[0] == 2.25);
    CHECK(m[0] == about(0.375)); // 0.5 * 3 / (3 + 1)
    CHECK(w[0] == about(0.625)); // 1 - 0.5 * 0.375 / 0.5
    g[0] = 0;
    optimizer.next_step()(w, g, m, v);
    CHECK(v[0] == 1.6875);
    CHECK(m[0] == about(0.1875));
    CHECK(w[0] == about(0.5)); // 0.625 - 0.5 * 0.1875 / 0.75
}

TEST_CASE("ademamix: first steps, and the end of the warmup", "[rules]") {
    double const beta3 = std::exp2(-0.2); // a half-life of 5 steps; beta1 has 1 step
    gs::ademamix const rule{.beta1 = 0.5, .beta2 = 0.75, .beta3 = beta3, .alpha = 8, .epsilon = 1, .warmup = 4};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{4}, m1{-1}, m2{-1}, v{-1};
    optimizer.initialize(w, m1, m2, v);
    optimizer.next_step()(w, g, m1, m2, v);
    CHECK(m1[0] == 2);
    CHECK(m2[0] == about((1 - std::exp2(-0.5)) * 4)); // a half-life of 0.75 * 1 + 0.25 * 5 = 2 steps
    CHECK(v[0] == 4);
    CHECK(w[0] == about(1 - 0.5 * (4 + 2 * m2[0]) / (4 + 1))); // 0.25 * 8 = 2

    for (std::int64_t const step : {3, 1000}) {
        optimizer.seek({.step = step});
        w[0] = 1, m1[0] = 0, m2[0] = 0, v[0] = 0;
        optimizer.next_step()(w, g, m1, m2, v);
        auto const t = static_cast<double>(step + 1);
        double const first = 2 / (1 - std::pow(0.5, t)), second = 4 / (1 - std::pow(0.75, t));
        CHECK(m2[0] == about((1 - beta3) * 4));
        CHECK(w[0] == about(1 - 0.5 * (first + 8 * m2[0]) / (std::sqrt(second) + 1)));
    }
}

TEST_CASE("ademamix: a slow average that is not slower than the fast one does not warm up", "[rules]") {
    gs::ademamix const rule{.beta1 = 0.75, .beta3 = 0.5, .warmup = 10};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{4}, m1{0}, m2{0}, v{0};
    optimizer.next_step()(w, g, m1, m2, v);
    CHECK(m2[0] == 2);
}

TEST_CASE("adopt: first steps", "[rules]") {
    gs::adopt const rule{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1, 1}, g{4, 0}, m{-1, -1}, v{-1, -1};
    optimizer.initialize(w, m, v);
    optimizer.next_step()(w, g, m, v);
    CHECK(v == numbers{16, 0});
    CHECK(m == numbers{0, 0});
    CHECK(w == numbers{1, 1});
    g = {2, 0.5};
    optimizer.next_step()(w, g, m, v);
    CHECK(m == numbers{0.25, 0.25}); // 0.5 * 2 / 4, and 0.5 * 0.5 / 1
    CHECK(w == numbers{0.875, 0.875});
    CHECK(v == numbers{13, 0.0625});
    g = {1e6, -1e6};
    optimizer.next_step()(w, g, m, v);
    double const c = std::pow(2, 0.25); // of the third step
    CHECK(m[0] == about(0.125 + 0.5 * c));
    CHECK(m[1] == about(0.125 - 0.5 * c));
    CHECK(w[0] == about(0.875 - 0.5 * (0.125 + 0.5 * c)));
}

TEST_CASE("qhm: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::qhm{.beta = 0.5, .nu = 0.25}, gs::constant{0.5});
    numbers w{1}, g{4}, m{-1};
    optimizer.initialize(w, m);
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 2);
    CHECK(w[0] == -0.75); // 1 - 0.5 * (0.75 * 4 + 0.25 * 2)
    g[0] = 0;
    optimizer.next_step()(w, g, m);
    CHECK(m[0] == 1);
    CHECK(w[0] == -0.875);
}

TEST_CASE("qhm is sgd, momentum and nesterov at the ends of nu", "[rules]") {
    double const rate = 0.5, beta = 0.75;
    auto const weight_after = [](auto optimizer) {
        numbers w{1}, m{0};
        for (double const gradient : {4.0, -1.0, 0.5, 3.0}) {
            numbers g{gradient};
            if constexpr (decltype(optimizer)::slots == 0) optimizer.next_step()(w, g);
            else optimizer.next_step()(w, g, m);
        }
        return w[0];
    };
    auto const of = [&](double nu) {
        return weight_after(gs::make_updater<double>(gs::qhm{.beta = beta, .nu = nu}, gs::constant{rate}));
    };
    gs::constant const of_sum{rate * (1 - beta)}; // where m is a sum, and not an average
    CHECK(of(0) == about(weight_after(gs::make_updater<double>(gs::sgd{}, gs::constant{rate}))));
    CHECK(of(1) == about(weight_after(gs::make_updater<double>(gs::momentum{.mu = beta}, of_sum))));
    CHECK(of(beta) == about(weight_after(gs::make_updater<double>(gs::nesterov{.mu = beta}, of_sum))));
}

TEST_CASE("qhadam: first steps", "[rules]") {
    gs::qhadam const rule{.beta1 = 0.5, .beta2 = 0.75, .nu1 = 0.25, .nu2 = 0.5, .epsilon = 1};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{4}, m{-1}, v{-1};
    optimizer.initialize(w, m, v);
    optimizer.next_step()(w, g, m, v);
    CHECK(m[0] == 2);
    CHECK(v[0] == 4);
    CHECK(w[0] == about(0.6)); // the corrected moments are g and g^2
    g[0] = 2;
    optimizer.next_step()(w, g, m, v);
    CHECK(m[0] == 2);
    CHECK(v[0] == 4);
    double const direction = 0.75 * 2 + 0.25 * 2 / 0.75, square = 0.5 * 4 + 0.5 * 4 / 0.4375;
    CHECK(w[0] == about(0.6 - 0.5 * direction / (std::sqrt(square) + 1)));
}

TEST_CASE("proximal_adagrad: first steps", "[rules]") {
    gs::proximal_adagrad const rule{.l1 = 2, .l2 = 10, .initial_accumulator = 9};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1, -1, 0.5, 0.25}, g{4, -4, 4, 4}, n(4);
    optimizer.initialize(w, n);
    CHECK(n == numbers(4, 9.0));
    optimizer.next_step()(w, g, n); // the rate of each is 0.5 / 5, the threshold 0.2, the factor 5 / (5 + 5)
    CHECK(n == numbers(4, 25.0));
    CHECK(w[0] == about((0.6 - 0.2) / 2));
    CHECK(w[1] == about(-(0.6 - 0.2) / 2));
    CHECK(w[2] == 0); // |0.5 - 0.4| <= 0.2
    CHECK(w[3] == 0); // |0.25 - 0.4| <= 0.2

    double const before = w[0];
    g = {0, 0, 0, 0};
    optimizer.next_step()(w, g, n); // without gradient it shrinks on
    CHECK(w[0] == 0);
    CHECK(before == about(0.2));
}

TEST_CASE("proximal_adagrad without l1, l2 and gradient stands still", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::proximal_adagrad{.initial_accumulator = 0}, gs::constant{0.5});
    numbers w{1, -2}, g{3, 0}, n(2);
    optimizer.initialize(w, n);
    optimizer.next_step()(w, g, n);
    CHECK(w[0] == 0.5); // 1 - 0.5 * 3 / 3
    CHECK(w[1] == -2);
    gs::proximal_adagrad const strong{.l1 = 100, .l2 = 100, .initial_accumulator = 0};
    auto other = gs::make_updater<double>(strong, gs::constant{0.5});
    g[0] = 0, n[0] = 0;
    other.next_step()(w, g, n); // n is 0: no rate to shrink with
    CHECK(w == numbers{0.5, -2});
}

TEST_CASE("ftrl: lr_power", "[rules]") {
    auto const stepped = [](double lr_power, double initial_accumulator) {
        gs::ftrl const rule{.l2 = 0.5, .beta = 1, .lr_power = lr_power, .initial_accumulator = initial_accumulator};
        auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
        numbers w{1}, g{2}, z{0}, n{0};
        optimizer.initialize(w, z, n);
        optimizer.next_step()(w, g, z, n);
        return w[0];
    };
    CHECK(stepped(-0.5, 12) == about(1 - 2 / 10.5)); // (1 + 16^0.5) / 0.5 + 0.5
    CHECK(stepped(-0.25, 12) == about(1 - 2 / 6.5)); // (1 + 16^0.25) / 0.5 + 0.5
    CHECK(stepped(-1, 3) == about(1 - 2 / 16.5));    // (1 + 7) / 0.5 + 0.5
    CHECK(stepped(0, 3) == about(1 - 2 / 4.5));      // (1 + 1) / 0.5 + 0.5
}

TEST_CASE("constant_rate_ftrl: first steps", "[rules]") {
    gs::constant_rate_ftrl const rule{.l1 = 1, .l2 = 0.5, .beta = 1, .initial_accumulator = 9};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{0, 0, 0}, g{4, -4, 0}, z(3, 9.0), n(3);
    optimizer.initialize(w, z, n);
    CHECK(z == numbers(3, 0.0));
    CHECK(n == numbers(3, 9.0));
    optimizer.next_step()(w, g, z, n); // q = (1 + 5) / 0.5 + 0.5 = 12.5
    CHECK(n == numbers{25, 25, 9});
    CHECK(z == numbers{4, -4, 0});
    CHECK(w[0] == about(-3 / 12.5));
    CHECK(w[1] == about(3 / 12.5));
    CHECK(w[2] == 0);
    g = {12, 0, 1};
    optimizer.next_step()(w, g, z, n);
    CHECK(n[0] == 169);
    CHECK(z[0] == about(4 + 12 + 16 * 0.24)); // (13 - 5) / 0.5 times the weight
    CHECK(w[0] == about(-18.84 / 28.5));      // (1 + 13) / 0.5 + 0.5
    CHECK(z[1] == -4);
    CHECK(w[1] == about(3 / 12.5));
    CHECK(z[2] == 1); // at the threshold, which belongs to 0
    CHECK(w[2] == 0);
}

TEST_CASE("constant_rate_ftrl: shrinkage and lr_power", "[rules]") {
    numbers w{2}, g{4}, z{0}, n{9};
    gs::constant_rate_ftrl const shrinks{.l1 = 1, .l2 = 0.5, .beta = 1, .initial_accumulator = 9, .l2_shrinkage = 0.25};
    auto optimizer = gs::make_updater<double>(shrinks, gs::constant{0.5});
    optimizer.next_step()(w, g, z, n);
    CHECK(n[0] == 25);               // of the gradient alone
    CHECK(z[0] == about(4 + 1 - 8)); // g + 2 * 0.25 * 2, and (5 - 3) / 0.5 * 2
    CHECK(w[0] == about(2 / 12.5));

    w[0] = 1, g[0] = 2, z[0] = 0, n[0] = 12;
    gs::constant_rate_ftrl const other{.l2 = 0.5, .beta = 1, .lr_power = -1};
    auto linear = gs::make_updater<double>(other, gs::constant{0.5});
    linear.next_step()(w, g, z, n);
    CHECK(n[0] == 16);
    CHECK(z[0] == about(2 - 8));    // (16 - 12) / 0.5 * 1
    CHECK(w[0] == about(6 / 34.5)); // (1 + 16) / 0.5 + 0.5
}

TEST_CASE("averaged: the average follows the weight, and starts at it", "[rules]") {
    auto optimizer =
        gs::make_updater<double>(gs::averaged{gs::momentum{.mu = 0.5}, gs::ema{.decay = 0.75}}, gs::constant{0.5});
    numbers w{2}, g{4}, m{-1}, average{-1};
    optimizer.initialize(w, m, average);
    CHECK(m[0] == 0);
    CHECK(average[0] == 2);
    optimizer.next_step()(w, g, m, average);
    CHECK(w[0] == 0);
    CHECK(average[0] == 1.5);
    optimizer.next_step()(w, g, m, average); // m = 6
    CHECK(w[0] == -3);
    CHECK(average[0] == 0.375); // 0.75 * 1.5 + 0.25 * -3
}

TEST_CASE("rprop: first steps", "[rules]") {
    gs::rprop const rule{.initial_step = 0.5, .shrink = 0.5, .grow = 2, .smallest_step = 0.125, .largest_step = 1};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{1});
    numbers w{1}, g{0}, eta{-1}, p{-1};
    optimizer.initialize(w, eta, p);
    CHECK(eta[0] == 0.5);
    CHECK(p[0] == 0);
    auto const after = [&](double gradient, double expected_w, double expected_eta, double expected_p) {
        g[0] = gradient;
        optimizer.next_step()(w, g, eta, p);
        CHECK(w[0] == expected_w);
        CHECK(eta[0] == expected_eta);
        CHECK(p[0] == expected_p);
    };
    after(3, 0.5, 0.5, 3);
    after(1, -0.5, 1, 1);
    after(1e-3, -1.5, 1, 1e-3); // at the largest step
    after(-2, -1.5, 0.5, 0);    // the sign changes: it waits
    after(-2, -1, 0.5, -2);
    after(0, -1, 0.5, 0);
    after(2, -1.5, 0.5, 2);
    after(-2, -1.5, 0.25, 0);
    after(1, -1.75, 0.25, 1);
    after(-1, -1.75, 0.125, 0);
    after(1, -1.875, 0.125, 1);
    after(-1, -1.875, 0.125, 0); // at the smallest step
    auto halved = gs::make_updater<double>(rule, gs::constant{0.5});
    g[0] = -7;
    halved.next_step()(w, g, eta, p);
    CHECK(w[0] == -1.8125);

    // A start outside the limits is kept until the step changes, as torch does.
    auto outside = gs::make_updater<double>(gs::rprop{.initial_step = 51}, gs::constant{1});
    std::vector<double> x{0}, sizes{51}, before{0};
    std::vector<double> const up{1};
    outside.next_step()(x, up, sizes, before);
    CHECK(x[0] == -51);
    outside.next_step()(x, up, sizes, before);
    CHECK(x[0] == -101);
    CHECK(sizes[0] == 50);
}

TEST_CASE("rprop: gradients whose product underflows still have signs", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::rprop{.initial_step = 0.5, .grow = 2}, gs::constant{1});
    std::vector<float> w{0}, g{1e-30f}, eta(1), p(1);
    optimizer.initialize(w, eta, p);
    for (int k = 0; k < 2; ++k) optimizer.next_step()(w, g, eta, p);
    CHECK(w[0] == -1.5f);
    CHECK(eta[0] == 1);
}

TEST_CASE("optimistic_sgd: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::optimistic_sgd{.alpha = 1, .beta = 0.5}, gs::constant{0.5});
    numbers w{1}, g{2}, p{-1};
    optimizer.initialize(w, p);
    CHECK(p[0] == 0);
    optimizer.next_step()(w, g, p);
    CHECK(w[0] == 0);
    g[0] = 4;
    optimizer.next_step()(w, g, p);
    CHECK(w[0] == -2.5); // 1.5 * 4 - 0.5 * 2
    CHECK(p[0] == 4);
    g[0] = 0;
    for (int k = 0; k < 2; ++k) optimizer.next_step()(w, g, p);
    CHECK(w[0] == -1.5); // once
}

TEST_CASE("optimistic_adam: first steps", "[rules]") {
    gs::optimistic_adam const rule{.alpha = 1, .beta = 0.5, .beta1 = 0, .beta2 = 0.75, .epsilon = 0.5};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1}, g{3}, m{-1}, v{-1}, p{-1};
    optimizer.initialize(w, m, v, p);
    optimizer.next_step()(w, g, m, v, p);
    CHECK(p[0] == about(3 / 3.5)); // after the correction the root is 3
    CHECK(w[0] == about(1 - 0.5 * 3 / 3.5));
    g[0] = 0;
    optimizer.next_step()(w, g, m, v, p);
    CHECK(w[0] == about(1 - 0.25 * 3 / 3.5));
    CHECK(p[0] == 0);
}

TEST_CASE("adabound: first steps", "[rules]") {
    gs::adabound const rule{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 0, .gamma = 1, .final_ratio = 2};
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    numbers w{1, 1, 1, 1}, g{3, 1, 0.125, 0}, m(4), v(4);
    optimizer.next_step()(w, g, m, v); // the bounds are 1 and 4, and m = g / 2 = sqrt(v)
    CHECK(w[0] == about(0.25));        // below the lower one
    CHECK(w[1] == about(0.5));         // 1 / 0.5 is between them
    CHECK(w[2] == about(0.875));       // above the upper one
    CHECK(w[3] == 1);
}

TEST_CASE("pnm: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::pnm{.beta1 = 0.5, .beta0 = 1}, gs::constant{0.5});
    numbers w{1}, g{4}, odd(1), even(1);
    double const norm = std::sqrt(5);
    optimizer.next_step()(w, g, odd, even);
    CHECK(odd[0] == 3);
    CHECK(even[0] == 0);
    CHECK(w[0] == about(1 - 0.5 * 6 / norm));
    g[0] = 8;
    optimizer.next_step()(w, g, odd, even);
    CHECK(odd[0] == 3);
    CHECK(even[0] == 6);
    CHECK(w[0] == about(1 - 0.5 * (6 + 9) / norm)); // 2 * 6 - 3
    g[0] = 0;
    optimizer.next_step()(w, g, odd, even);
    CHECK(odd[0] == 0.75);
    CHECK(even[0] == 6);
    CHECK(w[0] == about(1 - 0.5 * (6 + 9 - 4.5) / norm)); // 2 * 0.75 - 6
}

TEST_CASE("adapnm: first steps", "[rules]") {
    auto optimizer =
        gs::make_updater<double>(gs::adapnm{.beta1 = 0.5, .beta2 = 0.75, .beta0 = 1, .epsilon = 1}, gs::constant{0.5});
    numbers w{1}, g{4}, odd(1), even(1), v(1), v_max(1);
    double const norm = std::sqrt(5);
    optimizer.next_step()(w, g, odd, even, v, v_max);
    CHECK(v[0] == 4);
    CHECK(w[0] == about(1 - 6 / norm / 5)); // the rate is 0.5 / (1 - 0.5), and the root of 16
    double const before = w[0];
    g[0] = 0;
    optimizer.next_step()(w, g, odd, even, v, v_max);
    CHECK(v[0] == 3);
    CHECK(v_max[0] == 4);
    CHECK(w[0] == about(before + 0.5 / 0.75 * 3 / norm / (std::sqrt(4 / 0.4375) + 1)));
}

TEST_CASE("cocob: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::cocob{.alpha = 2, .epsilon = 1}, gs::constant{1});
    numbers w{5}, g{4}, largest{-1}, sum{-1}, reward{-1}, theta{-1}, w0{-1};
    optimizer.initialize(w, largest, sum, reward, theta, w0);
    CHECK(largest[0] == 1);
    CHECK(w0[0] == 5);
    auto const after = [&](double gradient) {
        g[0] = gradient;
        optimizer.next_step()(w, g, largest, sum, reward, theta, w0);
        return w[0];
    };
    CHECK(after(4) == about(4.5)); // -4 / max(4 + 4, 2 * 4)
    CHECK(largest[0] == 4);
    CHECK(after(-2) == about(4.8)); // -2 / max(6 + 4, 8)
    CHECK(reward[0] == 0);          // it lost 1
    CHECK(after(2) == about(5 - 4 / 12.0 * 4.4 / 4));
    CHECK(reward[0] == about(0.4));
    double const before = w[0];
    w[0] = 1; // by something else
    CHECK(after(0) == 1);
    w[0] = before;
    CHECK(after(1e-300) == about(before));
}

TEST_CASE("madgrad: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::madgrad{.mu = 0.5, .epsilon = 1}, gs::constant{0.5});
    numbers w{10}, g{4}, s{-1}, n{-1}, w0{-1};
    optimizer.initialize(w, s, n, w0);
    CHECK(w0[0] == 10);
    optimizer.next_step()(w, g, s, n, w0); // h = 0.5 * 4
    CHECK(s[0] == 2);
    CHECK(n[0] == 8);
    CHECK(w[0] == about(10 - 0.5 * 2 / (2 + 1.0)));
    double const before = w[0];
    optimizer.seek({.step = 3});
    g[0] = -1; // h = 0.5 * sqrt(4) * -1
    optimizer.next_step()(w, g, s, n, w0);
    CHECK(s[0] == about(1));
    CHECK(n[0] == about(9));
    double const z = 10 - 1 / (std::cbrt(9) + 1);
    CHECK(w[0] == about((before + z) / 2));
    g[0] = 0;
    double const then = w[0];
    optimizer.next_step({.rate = 0})(w, g, s, n, w0); // carried on to z
    CHECK(w[0] == about((then + z) / 2));
}
