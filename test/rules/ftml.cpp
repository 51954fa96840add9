// ftml, which keeps one slot, against the three of its paper; and first steps by hand.
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace gs = gradstep;

namespace {

// Zheng & Kwok 2017, algorithm 1, line by line.
struct recurrence {
    gs::ftml rule;
    long double v = 0, d = 0, z = 0;

    void step(int t, long double rate, long double g, long double& w) {
        long double const beta1 = rule.beta1, beta2 = rule.beta2;
        v = beta2 * v + (1 - beta2) * g * g;
        long double const root = std::sqrt(v / (1 - std::pow(beta2, static_cast<long double>(t))));
        long double const next = (1 - std::pow(beta1, static_cast<long double>(t))) / rate * (root + rule.epsilon);
        z = beta1 * z + (1 - beta1) * g - (next - beta1 * d) * w;
        w = -z / next;
        d = next;
    }
};

} // namespace

TEST_CASE("ftml: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::ftml{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1}, gs::constant{0.5});
    std::vector<double> w{1}, g{3}, v{-1};
    optimizer.initialize(w, v);
    CHECK(v[0] == 0);
    optimizer.next_step()(w, g, v);
    CHECK(v[0] == 2.25);
    CHECK(w[0] == Approx(1 - 0.5 * 3 / 4.0).epsilon(1e-14)); // (1 - beta1) / (1 - beta1) = 1, and the root of 9
    double const before = w[0];
    g[0] = 1;
    optimizer.next_step()(w, g, v);
    CHECK(v[0] == 1.9375);                                                       // 0.75 * 2.25 + 0.25
    double const divisor = std::sqrt(1.9375 / 0.4375) + 1;                       // 1 - 0.75^2
    CHECK(w[0] == Approx(before - 0.5 * (0.5 / 0.75) / divisor).epsilon(1e-14)); // 1 - 0.5^2
}

// The weight is off by a rounding of each sum, and by each step's own error: v by at most 5
// roundings a step, since all its terms have one sign, of which the root takes half; the other
// operations of a step are fewer than 12. A power of beta is good to one ulp, two roundings, which
// the difference to 1 amplifies by beta^t / (1 - beta^t); the root halves it.
TEST_CASE("ftml gives the weights of the paper's recurrence, under a rate that changes", "[rules]") {
    constexpr int steps = 50;
    for (gs::ftml const rule : {gs::ftml{}, gs::ftml{.beta1 = 0.9, .beta2 = 0.5, .epsilon = 1e-3}}) {
        CAPTURE(gs::describe(rule));
        auto optimizer = gs::make_updater<double>(rule, gs::external{});
        std::vector<double> w{0.75}, g{0}, v{0};
        recurrence paper{rule};
        long double expected = w[0], allowed = 0;
        for (int t = 1; t <= steps; ++t) {
            double const rate = 0.1 / t;
            g[0] = std::cos(3.0 * t) * (t % 7 == 0 ? 0 : 1 + t % 5);
            long double const before = expected;
            optimizer.next_step({.rate = rate})(w, g, v);
            paper.step(t, rate, g[0], expected);
            auto const amplified = [t](double beta) {
                double const power = std::pow(beta, t);
                return 2 * power / (1 - power);
            };
            long double const of_powers = amplified(rule.beta1) + amplified(rule.beta2) / 2;
            allowed += std::abs(expected) + (2.5L * t + 12 + of_powers) * std::abs(expected - before);
            constexpr long double u = std::numeric_limits<double>::epsilon() / 2;
            CHECK(std::abs(w[0] - expected) <= u * allowed);
        }
        CHECK(std::abs(expected - 0.75L) > 0.01L);
    }
}
