// FTRL against the textbook: z is accumulated with the rates of this step and of the one before.
#include <support/catch.hpp>
#include <support/oracle.hpp>
#include <support/refusal.hpp>
#include <support/tensors.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

namespace {

using real = long double;

// McMahan et al. 2013, Algorithm 1, with a rate for each step: one weight. It is given n, since it
// only sums squares, and so its rounding is not counted again at each step.
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
    guarded_tensor x(optimizer, n);
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
            // A difference of w stays as it is while w is not 0 (z' + q' w' does not depend on it),
            // so that in z it grows with q; at 0 a difference of z stays as it is; the threshold
            // between them makes no difference larger. On top comes what this step rounds, from the
            // actual state: oracle.hpp.
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
    guarded_tensor x(optimizer, 999, 1);
    x.train(optimizer, 20, {.rate = 0.1});
    std::vector<float> const before(x.weight.span().begin(), x.weight.span().end());
    x.set_gradient(0.0);
    for (int k = 0; k < 500; ++k) {
        double const rate = std::abs(number(77, static_cast<std::uint64_t>(k), -20, 6, 8)); // 0 among them
        x.take(optimizer.next_step({.rate = rate}));
    }
    CHECK(difference<float>(before, x.weight.span()) == "");
}

TEMPLATE_TEST_CASE("ftrl holds a weight still without gradient whose w * q vanishes", "[ftrl]", gs::serial_backend,
                   gs::simd_backend<>) {
    auto optimizer = gs::make_updater<float>(gs::ftrl{}, gs::constant{1e4}, TestType{}); // q is 1e-4
    std::vector<float> const before{2e-35f, -2e-35f, 1e-37f, -1e-37f, 2e-38f, -2e-38f, 0, 1, -1, 1e-36f, -1e-36f};
    std::vector<float> w = before, g(w.size()), z(w.size()), n(w.size());
    optimizer.initialize(w, z, n);
    for (int k = 0; k < 3; ++k) optimizer.next_step()(w, g, z, n);
    CHECK(w == before);
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
}

TEST_CASE("ftrl refuses numbers that leave a weight without gradient 0 / 0, by beta and the power of n", "[ftrl]") {
    auto const refused = [](gs::ftrl const& rule) {
        return refusal<gs::value_error>([&] { gs::make_updater<float>(rule, gs::constant{0.1}); });
    };
    std::string const reason =
        " is out of range; expected > 0, at least 1.0842021724855044e-19, unless initial_accumulator^(-lr_power) or "
        "l2 is, or a weight without gradient has 0 / 0 for its step";
    CHECK(refused({.beta = 0}) == "ftrl.beta: 0" + reason);
    CHECK(refused({.beta = 1e-20, .initial_accumulator = 1e-50}) == "ftrl.beta: 1e-20" + reason);
    // Small only after the power; and not small there, but 0 in float before it.
    CHECK(refused({.beta = 0, .lr_power = -4, .initial_accumulator = 1e-10}) == "ftrl.beta: 0" + reason);
    CHECK(refused({.beta = 0, .lr_power = -0.125, .initial_accumulator = 1e-40}) == "ftrl.beta: 0" + reason);

    for (gs::ftrl const& rule : {gs::ftrl{.beta = 0x1p-63}, gs::ftrl{.l2 = 1e-37, .beta = 0},
                                 gs::ftrl{.beta = 0, .initial_accumulator = 0x1p-126},
                                 gs::ftrl{.beta = 0, .lr_power = -4, .initial_accumulator = 1e-4},
                                 gs::ftrl{.beta = 0, .lr_power = -0.125, .initial_accumulator = 1e-37},
                                 gs::ftrl{.beta = 0, .lr_power = 0}}) { // n^0 is 1
        CAPTURE(gs::describe(rule));
        auto optimizer = gs::make_updater<float>(rule, gs::external{});
        std::vector<float> w{0, 1, -2}, g(3), z(3), n(3);
        auto const before = w;
        optimizer.initialize(w, z, n);
        for (double const rate : {0.1, 1e18, 1e-30}) optimizer.next_step({.rate = rate})(w, g, z, n);
        CHECK(w == before);
    }
}

TEST_CASE("constant_rate_ftrl lets a weight stand whose q is 0 or infinite, and passes no NaN over", "[ftrl]") {
    auto const check = [](auto large) { // a gradient whose square overflows
        using T = decltype(large);
        T const infinity = std::numeric_limits<T>::infinity();
        for (auto const& rule : {gs::constant_rate_ftrl{.l1 = 0.125}, gs::constant_rate_ftrl{.lr_power = -0.75}}) {
            auto optimizer = gs::make_updater<T>(rule, gs::constant{0.5});
            std::vector<T> w{0, 0, 0, 0}, g{1, -1, 1, -1}, z(4), n(4);
            optimizer.initialize(w, z, n);
            optimizer.next_step()(w, g, z, n);
            auto const first_w = w, first_z = z;

            g = {large, -large, 1, 1};
            optimizer.next_step()(w, g, z, n);
            CHECK(n[0] == infinity);
            g = {1, large, infinity, -infinity};
            optimizer.next_step()(w, g, z, n); // the first from n = infinity on
            for (std::size_t i = 0; i < 2; ++i) {
                CHECK(w[i] == first_w[i]);
                CHECK(w[i] != 0);
                CHECK(z[i] == first_z[i]);
                CHECK(n[i] == infinity);
                CHECK(std::isnan(w[i + 2]));
            }
            g = {infinity, std::numeric_limits<T>::quiet_NaN(), 0, 0};
            optimizer.next_step()(w, g, z, n);
            for (T const x : w) CHECK(std::isnan(x));
        }
        auto optimizer = gs::make_updater<T>(gs::constant_rate_ftrl{.beta = 0}, gs::external{});
        std::vector<T> w{3, -2}, g{0, 0}, z(2), n(2); // no gradient yet: n = 0, and so q
        optimizer.next_step({.rate = 0.5})(w, g, z, n);
        CHECK(w == std::vector<T>{3, -2});
        g[0] = std::numeric_limits<T>::quiet_NaN();
        optimizer.next_step({.rate = 0})(w, g, z, n);
        CHECK(std::isnan(w[0])); // at a rate of 0, too
        CHECK(w[1] == -2);
    };
    check(1e20f);
    check(1e160);
}
