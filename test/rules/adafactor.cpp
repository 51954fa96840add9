// adafactor against its formula in long double, torch.optim.Adafactor and optax.adafactor; what
// every backend has in common; and what it refuses.
#include <golden/factored_optax.hpp>
#include <golden/factored_torch.hpp>
#include <support/elements.hpp>
#include <support/factored.hpp>

#include <gradstep/dialects/optax.hpp>
#include <gradstep/dialects/torch.hpp>
#include <gradstep/rules/adafactor.hpp>

#include <cmath>
#include <limits>
#include <vector>

using namespace factored;

namespace {

// A run of the formula, and what another system rounds more.
struct setting {
    double lr = rate, scale = 1, decay = factored::decay, of_power = 0;
};
struct run_by_formula {
    std::vector<real> w;
    double bound; // for a computation whose arithmetic and state have the unit roundoff u
};

// Algorithms 4 and 5 of the paper, with torch's clamp.
//
// The bound: a sum of N squares in double has a relative error of N 2^-53. r, c and v are averages
// of positive numbers, and each step rounds them six times, so after t steps their relative error
// is at most e = t (N 2^-53 + 6 u). In u = g / sqrt(r c / mean(r)) the root halves the errors of
// three such numbers, and there are six roundings: 1.5 e + 6 u. RMS(u) adds the error of a sum, N
// 2^-53. RMS(w) is off by the error of the weights before the step. A maximum makes no error
// larger. So a step adds to the error of a weight
//     |move| (3 e + 20 u + N 2^-53 + error / RMS(w)) + 4 u |w|
// `of_power` is the relative error of beta and 1 - beta, which e has once a step, if another system
// rounds them more.
run_by_formula by_formula(gs::adafactor const& rule, std::size_t rows, std::size_t cols, setting const& how, double u) {
    bool const is_matrix = cols != 0;
    std::size_t const width = is_matrix ? cols : 1, n = rows * width;
    numbers const first = sequence(1, n);
    std::vector<real> w(first.begin(), first.end()), r(rows), c(width), v(n), step(n);
    double error = 0;
    for (std::size_t t = 1; t <= steps; ++t) {
        numbers const g = sequence(t + 1, n, how.scale);
        real const gain = std::pow(static_cast<real>(t), static_cast<real>(rule.beta2_decay)), keep = 1 - gain;
        std::vector<real> of_rows(rows), of_cols(width);
        for (std::size_t i = 0; i < n; ++i) {
            real const square = static_cast<real>(g[i]) * g[i] + static_cast<real>(rule.epsilon);
            of_rows[i / width] += square / static_cast<real>(width);
            of_cols[i % width] += square / static_cast<real>(rows);
            v[i] = keep * v[i] + gain * square;
        }
        real mean = 0;
        for (std::size_t i = 0; i < rows; ++i) {
            r[i] = keep * r[i] + gain * of_rows[i];
            mean += r[i] / static_cast<real>(rows);
        }
        for (std::size_t j = 0; j < width; ++j) c[j] = keep * c[j] + gain * of_cols[j];
        real squares_of_u = 0, squares_of_w = 0;
        for (std::size_t i = 0; i < n; ++i) {
            real const estimate =
                is_matrix ? r[i / width] * c[i % width] / std::max(mean, static_cast<real>(rule.clamp)) : v[i];
            step[i] = g[i] / std::max(std::sqrt(estimate), static_cast<real>(rule.clamp));
            squares_of_u += step[i] * step[i];
            squares_of_w += w[i] * w[i];
        }
        real const count = static_cast<real>(n), of_w = std::sqrt(squares_of_w / count);
        real const rho =
            rule.relative_step ? std::min(static_cast<real>(how.lr), 1 / std::sqrt(static_cast<real>(t))) : how.lr;
        real const alpha = rule.scale_parameter ? std::max(static_cast<real>(rule.epsilon2), of_w) * rho : rho;
        real const move = alpha / std::max(real(1), std::sqrt(squares_of_u / count) / static_cast<real>(rule.d));
        real largest_move = 0, largest_w = 0;
        for (std::size_t i = 0; i < n; ++i) {
            w[i] = w[i] * (1 - static_cast<real>(how.lr) * static_cast<real>(how.decay)) - move * step[i];
            largest_move = std::max(largest_move, std::abs(move * step[i]));
            largest_w = std::max(largest_w, std::abs(w[i]) + std::abs(move * step[i]));
        }
        double const of_sum = static_cast<double>(n) * 0x1p-53,
                     e = static_cast<double>(t) * (of_sum + 6 * u + how.of_power);
        error += static_cast<double>(largest_move) *
                     (3 * e + 20 * u + of_sum + (rule.scale_parameter ? error / static_cast<double>(of_w) : 0)) +
                 4 * u * static_cast<double>(largest_w);
    }
    return {w, error};
}

std::vector<gs::adafactor> settings() {
    std::vector<gs::adafactor> out(6);
    out[1].clamp = 0.5;
    out[2].beta2_decay = -0.5;
    out[2].epsilon = 0.01;
    out[3].relative_step = false;
    out[3].d = std::numeric_limits<double>::infinity();
    out[4].scale_parameter = false;
    out[4].d = 0.5;
    out[5].epsilon2 = 3;
    return out;
}

} // namespace

TEST_CASE("adafactor: the formula", "[rules]") {
    auto const all = settings();
    for (gs::adafactor const& rule : all)
        for (auto const [rows, cols] : shapes)
            for (double const lr : {rate, 0.75}) {
                if (is_large({rows, cols}) && (&rule != &all[0] || lr != rate)) continue;
                CAPTURE(gs::describe(rule), rows, cols, lr);
                auto const check = [&](auto const& found, double u) {
                    auto const expected = by_formula(rule, rows, cols, {.lr = lr}, u);
                    CHECK(largest_difference(found, expected.w) <= expected.bound);
                };
                check(trained<double>(rule, gs::decoupled{decay}, rows, cols, lr), 0x1p-53);
                check(trained<float>(rule, gs::decoupled{decay}, rows, cols, lr), 0x1p-24);
            }
}

TEST_CASE("adafactor: torch.optim.Adafactor and optax.adafactor", "[rules]") {
    auto const check = [](gs::adafactor const& rule, auto const& regularizer, std::size_t rows, std::size_t cols,
                          auto const& golden, setting const& how = {}) {
        CAPTURE(gs::describe(rule), rows, cols);
        auto const found = trained<double>(rule, regularizer, rows, cols, how.lr, how.scale);
        auto const both = by_formula(rule, rows, cols, how, 0x1p-53);
        CHECK(largest_difference(found, golden) <= 2 * both.bound); // both round
    };
    namespace torch = gs::dialects::torch;
    namespace optax = gs::dialects::optax;
    gs::decoupled const decay_of{decay};
    double const machine = 0x1p-52; // eps[0] = None in float64
    check(torch::adafactor({.eps1 = machine}), decay_of, 5, 8, golden::adafactor_matrix);
    check(torch::adafactor({.eps1 = machine}), decay_of, 40, 0, golden::adafactor_vector);
    check(torch::adafactor({.eps1 = 0.5}), decay_of, 8, 5, golden::adafactor_clamped, {.scale = 0.25});
    check(torch::adafactor({.beta2_decay = -0.5, .eps1 = machine, .eps2 = 3, .d = 1.25}), decay_of, 8, 5,
          golden::adafactor_relative, {.lr = 2});
    // optax computes the power in float: off by 2 ulp, and 1 - power, which is at least 0.29, by
    // less than 8 times that.
    setting const of_optax{.decay = 0, .of_power = 0x1p-20};
    check(optax::adafactor(), gs::none{}, 5, 8, golden::optax_adafactor_matrix, of_optax);
    check(optax::adafactor(), gs::none{}, 40, 0, golden::optax_adafactor_vector, of_optax);
    check(optax::adafactor({.decay_rate = 0.5,
                            .multiply_by_parameter_scale = false,
                            .clipping_threshold = std::numeric_limits<double>::infinity(),
                            .eps = 1e-2}),
          gs::none{}, 8, 5, golden::optax_adafactor_options, of_optax);
}

TEST_CASE("adafactor: a rule that is wrong is not within the bound", "[rules]") {
    auto const right = by_formula({}, 8, 5, {}, 0x1p-24);
    for (gs::adafactor const& wrong :
         {gs::adafactor{.beta2_decay = -0.801}, gs::adafactor{.epsilon = 1e-3}, gs::adafactor{.d = 0.99}})
        CHECK(largest_difference(by_formula(wrong, 8, 5, {}, 0x1p-24).w, right.w) > 10 * right.bound);
}

TEMPLATE_LIST_TEST_CASE("adafactor: equal bits on every backend and number of threads", "[rules]",
                        elements_of_policies) {
    check_bits<TestType>(gs::adafactor{});
    if constexpr (std::is_same_v<TestType, float>) check_bits<TestType>(settings()[3]);
}

TEST_CASE("adafactor: options, memory and what it refuses", "[rules]") {
    check_options(gs::adafactor{});
    check_regularizers(gs::adafactor{});
}

TEST_CASE("adafactor: a 4096 x 4096 matrix has 33 kB of state", "[rules]") {
    using updater = decltype(gs::make_updater<float>(gs::adafactor{}, gs::constant{rate}));
    constexpr std::size_t side = 4096, n = side * side;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i != updater::slots; ++i) bytes += updater::slot_size(i, n, {side, side}) * sizeof(float);
    CHECK(bytes == 32768);
    STATIC_REQUIRE(updater::slot_size(2, 12) == 12);
    STATIC_REQUIRE(updater::slot_size(2, 12, {3, 4}) == 0);
    STATIC_REQUIRE(updater::slot_size(0, 12, {3, 4}) == 3);
    STATIC_REQUIRE(updater::slot_size(1, 12, {3, 4}) == 4);
    STATIC_REQUIRE(updater::slot_size(0, 12) == 0);
    STATIC_REQUIRE(updater::state_bytes(12) == 0);
}

TEST_CASE("adafactor: hyperparameters", "[rules]") {
    CHECK(refusal<gs::value_error>([] {
              gs::make_updater<float>(gs::adafactor{.beta2_decay = 0.5}, gs::constant{1});
          }) == "adafactor.beta2_decay: 0.5 is out of range; expected finite and <= 0");
    CHECK(refusal<gs::value_error>([] { gs::make_updater<float>(gs::adafactor{.d = 0}, gs::constant{1}); }) ==
          "adafactor.d: 0 is out of range; expected > 0, or infinite");
}
