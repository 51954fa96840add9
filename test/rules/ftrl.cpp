// FTRL against the textbook: z is accumulated with the rates of this step and of the one before.
#include <support/catch.hpp>
#include <support/oracle.hpp>
#include <support/tensors.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace {

using real = long double;

// McMahan et al. 2013, Algorithm 1, with a rate for each step: one weight. It is given n, since it only sums squares,
// and so its rounding is not counted again at each step.
struct textbook {
    gs::ftrl rule;
    real w, z, per_rate; // (beta + sqrt(n)) / rate of the step before

    // A weight that is not 0 has a z that says so.
    textbook(gs::ftrl r, real weight, real rate)
        : rule(r), w(weight), per_rate(scaled(rule.initial_accumulator, rate)) {
        z = w == 0 ? 0 : -w * (per_rate + rule.l2) - std::copysign(real(rule.l1), w);
    }
    real scaled(real n, real rate) const { return (rule.beta + std::sqrt(n)) / rate; }
    real q() const { return per_rate + rule.l2; }

    void step(real g, real n, real rate) {
        real const now = scaled(n, rate);
        z += g - (now - per_rate) * w;
        per_rate = now;
        w = std::abs(z) <= rule.l1 ? 0 : -(z - std::copysign(real(rule.l1), z)) / q();
    }
};

struct outcome {
    int zeros = 0, crossings = 0; // steps that leave a weight at 0, and that change its sign or reach or leave 0
    real worst = 0;               // difference to the textbook over its bound
    real relative = 0;            // difference over the largest the weight has been
};

outcome compare(gs::ftrl rule, std::function<double(gs::clock)> const& schedule, int steps) {
    constexpr std::size_t n = 64;
    constexpr real u = std::numeric_limits<double>::epsilon() / 2;
    auto optimizer = gs::make_updater<double>(rule, gs::external{});
    tensor x(optimizer, n);
    std::vector<textbook> books;
    for (std::size_t i = 0; i < n; ++i) books.emplace_back(rule, x.weight[i], schedule({}));
    // What the roundings of all steps so far can have moved z, or q * w, in each weight.
    std::vector<real> moved(n), largest(n);

    outcome out;
    for (int k = 0; k < steps; ++k) {
        double const rate = schedule(optimizer.clock());
        auto const step = optimizer.next_step({.rate = rate});
        std::vector<double> w(x.weight.span().begin(), x.weight.span().end());
        std::vector<double> z(x.state[0].span().begin(), x.state[0].span().end());
        std::vector<double> squares(x.state[1].span().begin(), x.state[1].span().end());
        for (std::size_t i = 0; i < n; ++i) // noise, and a pull that brings weights back to the threshold
            x.gradient[i] = number(static_cast<std::uint64_t>(k) + 1, i, -6, 1, 8) + w[i] / 2;
        x.take(step);

        oracle::ftrl const formula(rule, oracle::step_in<double>(step.number(), rate));
        for (std::size_t i = 0; i < n; ++i) {
            textbook& book = books[i];
            real const before = book.w, q_before = book.q();
            book.step(x.gradient[i], x.state[1][i], rate);
            // A difference of w stays as it is while w is not 0 (z' + q' w' does not depend on it), so that in z it
            // grows with q; at 0 a difference of z stays as it is; the threshold between them makes no difference
            // larger. On top comes what this step rounds, from the actual state: oracle.hpp.
            auto const rounded = formula(w[i], x.gradient[i], {z[i], squares[i]});
            if (before != 0) moved[i] *= book.q() / q_before;
            moved[i] += rounded.weight.error * book.q() + (rounded.weight.value == 0 ? rounded.state[0].error : 0);

            largest[i] = std::max({largest[i], std::abs(book.w), real(1) / 1024});
            real const error = std::abs(x.weight[i] - book.w);
            out.worst = std::max(out.worst, error == 0 ? 0 : error * book.q() / (1.01L * u * moved[i]));
            out.relative = std::max(out.relative, error / largest[i]);
            out.zeros += book.w == 0;
            out.crossings += before * book.w < 0 || (before == 0) != (book.w == 0);
        }
    }
    return out;
}

} // namespace

TEST_CASE("ftrl is the textbook's z and n under every schedule", "[ftrl]") {
    gs::cosine const cosine{.rate = 0.5, .steps = 2000, .end = 0.001};
    std::vector<std::pair<char const*, std::function<double(gs::clock)>>> const schedules{
        {"constant", gs::constant{0.1}},
        {"cosine", cosine},
        {"exponential", gs::exponential{.rate = 0.5, .decay = 0.5, .steps = 200}},
        {"staircase", gs::exponential{.rate = 0.5, .decay = 0.5, .steps = 200, .staircase = true}},
        {"poly", gs::poly{.rate = 0.5, .a = 0.01, .b = 0.75}},
        {"warmup", gs::warmup{cosine, 500, 0.001}},
        {"up and down", [](gs::clock now) { return now.step / 10 % 2 == 0 ? 0.3 : 0.02; }},
    };
    for (auto const& [name, schedule] : schedules) {
        for (gs::ftrl const rule :
             {gs::ftrl{.l1 = 1, .l2 = 0.1}, gs::ftrl{.l1 = 1, .beta = 0, .initial_accumulator = 0.1}}) {
            auto const found = compare(rule, schedule, 2000);
            CAPTURE(name, gs::describe(rule), found.zeros, found.crossings, found.worst, found.relative);
            CHECK(found.worst <= 1);
            CHECK(found.relative <= 1e-12);
            CHECK(found.zeros >= 1000);
            CHECK(found.crossings >= 1000);
        }
    }
}

TEST_CASE("ftrl holds its weights still without gradient, bit for bit, whatever the rate does", "[ftrl]") {
    auto optimizer = gs::make_updater<float>(gs::ftrl{.l1 = 0.5, .l2 = 0.01}, gs::external{});
    tensor x(optimizer, 999, 1);
    x.train(optimizer, 20, {.rate = 0.1});
    std::vector<float> const before(x.weight.span().begin(), x.weight.span().end());
    x.set_gradient(0.0);
    for (int k = 0; k < 500; ++k) {
        double const rate = std::abs(number(77, static_cast<std::uint64_t>(k), -20, 6, 8)); // 0 among them
        x.take(optimizer.next_step({.rate = rate}));
    }
    CHECK(difference<float>(before, x.weight.span()) == "");
}

TEST_CASE("ftrl reaches the minimum of a quadratic under cosine, which the constant-rate form does not", "[ftrl]") {
    // (w - 3)^2 / 2
    constexpr int steps = 2000;
    gs::cosine const schedule{.rate = 1, .steps = steps};
    auto optimizer = gs::make_updater<double>(gs::ftrl{}, schedule);
    std::vector<double> w{0}, g{0}, z{0}, n{0};
    double v = 0, v_z = 0, v_n = 0; // the form that systems use: z += g - (sqrt(n') - sqrt(n)) / rate * w
    for (int k = 0; k < steps; ++k) {
        g[0] = w[0] - 3;
        optimizer.next_step()(w, g, z, n);

        double const rate = schedule({.step = k}), slope = v - 3, n_new = v_n + slope * slope;
        v_z += slope - (std::sqrt(n_new) - std::sqrt(v_n)) / rate * v;
        v_n = n_new;
        v = -v_z / ((1 + std::sqrt(v_n)) / rate);
    }
    CHECK(std::abs(w[0] - 3) < 1e-9);
    CHECK(std::abs(v - 3) > 1);
}

TEST_CASE("ftrl goes on from steps with a rate of 0", "[ftrl]") {
    auto optimizer = gs::make_updater<double>(gs::ftrl{.l1 = 0.125}, gs::warmup{gs::constant{0.5}, 2});
    std::vector<double> w{1.5, -2, 0, 0}, g{0.5, 0.25, 0.5, 0}, z(4), n(4);
    optimizer.initialize(w, z, n);
    optimizer.next_step()(w, g, z, n); // rate 0
    CHECK(w == std::vector<double>{1.5, -2, 0, 0});
    CHECK(n == std::vector<double>{0.25, 0.0625, 0.25, 0});
    CHECK(std::isinf(z[0]));
    CHECK(z[2] == 0.5);

    g = {-0.25, 0.5, 0.25, 0};
    optimizer.next_step()(w, g, z, n); // rate 0.25
    double const q = (1 + std::sqrt(0.3125)) / 0.25;
    CHECK(w[0] == Approx(1.5 + 0.25 / q).epsilon(1e-14));
    CHECK(w[1] == Approx(-2 - 0.5 / q).epsilon(1e-14));
    CHECK(w[2] == Approx(-(0.75 - 0.125) / q).epsilon(1e-14)); // the gradient seen at rate 0 counts
    CHECK(w[3] == 0);
    CHECK(z[0] == Approx(-w[0] * q - 0.125).epsilon(1e-14));
    CHECK(z[2] == 0.75);
}

TEST_CASE("ftrl at a rate whose reciprocal is infinite in float moves no weight and makes no NaN") {
    auto optimizer = gs::make_updater<float>(gs::ftrl{.l2 = 1, .beta = 0}, gs::external{});
    std::vector<float> w{0, 1, -2, 0}, g{0, 0, 0.5f, 0.25f}, z(4), n(4);
    std::vector<float> const before = w;
    optimizer.initialize(w, z, n);
    optimizer.next_step({.rate = 1e-40})(w, g, z, n);
    CHECK(w == before);
    optimizer.next_step({.rate = 0.1})(w, g, z, n);
    for (float const x : w) CHECK(std::isfinite(x));
    CHECK_THROWS_AS(gs::make_updater<float>(gs::ftrl{.beta = 0, .initial_accumulator = 1e-50}, gs::constant{0.1}),
                    gs::value_error);
}
