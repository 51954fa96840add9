// sm3 and momentum_sm3 against the formula in long double and optax.sm3; what every backend has in
// common; and what they refuse.
#include <golden/factored_optax.hpp>
#include <support/factored.hpp>

#include <gradstep/dialects/optax.hpp>
#include <gradstep/rules/momentum_sm3.hpp>
#include <gradstep/rules/sm3.hpp>

#include <cmath>
#include <vector>

using namespace factored;

namespace {

struct run_by_formula {
    std::vector<real> w;
    double bound; // for a computation whose arithmetic and state have the unit roundoff u
};

// Algorithm SM3-II of the paper, whose cover is the rows and columns, with beta2 as in optax, and
// momentum.
//
// The bound: after t steps v has a relative error of at most 3 t u, since minima and maxima are
// exact. u = g / sqrt(v + epsilon) has half of it and 3 roundings, and m, an average of them, t
// more. So a step adds to the error of a weight
//     rate * largest |u| * (5 t + 6) u + 4 u |w|
run_by_formula by_formula(gs::momentum_sm3 const& rule, std::size_t rows, std::size_t cols, double decay_rate,
                          double u) {
    bool const is_matrix = cols != 0;
    std::size_t const width = is_matrix ? cols : 1, n = rows * width;
    numbers const first = sequence(1, n);
    std::vector<real> w(first.begin(), first.end()), r(rows), c(width), v(n), m(n);
    real const lr = rate, keep = rule.beta2, gain = rule.beta2 == 1 ? 1 : 1 - keep;
    double error = 0, largest = 0;
    for (std::size_t t = 1; t <= steps; ++t) {
        numbers const g = sequence(t + 1, n);
        std::vector<real> next_r(rows), next_c(width);
        real largest_w = 0;
        for (std::size_t i = 0; i < n; ++i) {
            real const before = is_matrix ? std::min(r[i / width], c[i % width]) : v[i];
            v[i] = keep * before + gain * static_cast<real>(g[i]) * g[i];
            next_r[i / width] = std::max(next_r[i / width], v[i]);
            next_c[i % width] = std::max(next_c[i % width], v[i]);
            real const step = v[i] == 0 ? 0 : g[i] / std::sqrt(v[i] + static_cast<real>(rule.epsilon));
            m[i] = static_cast<real>(rule.beta1) * m[i] + (1 - static_cast<real>(rule.beta1)) * step;
            w[i] = w[i] * (1 - lr * static_cast<real>(decay_rate)) - lr * m[i];
            largest = std::max(largest, static_cast<double>(std::abs(step)));
            largest_w = std::max(largest_w, std::abs(w[i]) + lr * std::abs(m[i]));
        }
        r = next_r, c = next_c;
        error += rate * largest * (5 * static_cast<double>(t) + 6) * u + 4 * u * static_cast<double>(largest_w);
    }
    return {w, error};
}
run_by_formula by_formula(gs::sm3 const& rule, std::size_t rows, std::size_t cols, double decay_rate, double u) {
    return by_formula({.beta1 = 0, .beta2 = rule.beta2, .epsilon = rule.epsilon}, rows, cols, decay_rate, u);
}
template <class Rule> std::vector<Rule> settings() {
    std::vector<Rule> out(3);
    out[1].beta2 = 0.75;
    out[2].epsilon = 0.25;
    if constexpr (requires { out[2].beta1; }) out[2].beta1 = 0.5;
    return out;
}

} // namespace

TEMPLATE_TEST_CASE("sm3: the formula", "[rules]", gs::sm3, gs::momentum_sm3) {
    for (TestType const& rule : settings<TestType>())
        for (auto const [rows, cols] : shapes) {
            CAPTURE(gs::describe(rule), rows, cols);
            auto const check = [&](auto const& found, double u) {
                auto const expected = by_formula(rule, rows, cols, decay, u);
                CHECK(largest_difference(found, expected.w) <= expected.bound);
            };
            check(trained<double>(rule, gs::decoupled{decay}, rows, cols), 0x1p-53);
            check(trained<float>(rule, gs::decoupled{decay}, rows, cols), 0x1p-24);
        }
}

TEST_CASE("sm3: optax.sm3", "[rules]") {
    auto const check = [](gs::momentum_sm3 const& rule, std::size_t rows, std::size_t cols, auto const& golden) {
        auto const found = trained<double>(rule, gs::none{}, rows, cols);
        CHECK(largest_difference(found, golden) <= 2 * by_formula(rule, rows, cols, 0, 0x1p-53).bound); // both round
    };
    check(gs::dialects::optax::sm3(), 5, 8, golden::optax_sm3_matrix);
    check(gs::dialects::optax::sm3({.momentum = 0.5}), 40, 0, golden::optax_sm3_vector);
}

TEST_CASE("sm3: a rule that is wrong is not within the bound", "[rules]") {
    auto const right = by_formula(gs::momentum_sm3{}, 8, 5, decay, 0x1p-24);
    for (gs::momentum_sm3 const& wrong : {gs::momentum_sm3{.beta1 = 0.901}, gs::momentum_sm3{.beta2 = 0.999}})
        CHECK(largest_difference(by_formula(wrong, 8, 5, decay, 0x1p-24).w, right.w) > 10 * right.bound);
}

TEMPLATE_TEST_CASE("sm3: equal bits on every backend and number of threads", "[rules]", float,
                   gs::stochastic<gs::bfloat16>) {
    check_bits<TestType>(gs::sm3{});
    check_bits<TestType>(gs::momentum_sm3{});
}

TEMPLATE_TEST_CASE("sm3: options, memory and what it refuses", "[rules]", gs::sm3, gs::momentum_sm3) {
    check_options(TestType{});
    check_regularizers(TestType{});
}
