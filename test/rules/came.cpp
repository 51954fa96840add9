// came against its formula in long double and came-pytorch; what every backend has in common; and
// what it refuses.
#include <golden/factored_torch.hpp>
#include <support/factored.hpp>

#include <gradstep/rules/came.hpp>

#include <cmath>
#include <limits>
#include <vector>

using namespace factored;

namespace {

struct run_by_formula {
    std::vector<real> w;
    double bound; // for a computation whose arithmetic and state have the unit roundoff u
};

// Algorithm 2 of the paper, with the code's order of the decay.
//
// The bound: as for adafactor, r, c and v have a relative error of at most e = t (N 2^-53 + 6 u)
// after t steps, and the clipped u has a = 3 e + 12 u + N 2^-53. With the largest |u| of all steps,
// U, an element of u is off by a U, one of m by (a + 4 t u) U, and u - m by D = (2 a + 4 t u + u)
// U. The mean of (u - m)^2 over a row or column has then a relative error of at most 2
// D / p + (D / p)^2, where p is the root of the smallest such mean, and its average s the largest
// of all steps and t roundings more. Its root, of r c / mean(r), has f = 1.5 s / (1 - s) + 6 u. So
// a step adds to the error of a weight, with the largest divisor's inverse F,
//     rate * F * (U f + (a + 4 t u) U + 4 u U) + 4 u |w|
// and for a tensor that is no matrix F = 1 and f = 0.
run_by_formula by_formula(gs::came const& rule, std::size_t rows, std::size_t cols, double u) {
    bool const is_matrix = cols != 0;
    std::size_t const width = is_matrix ? cols : 1, n = rows * width;
    real const count = static_cast<real>(n), lr = rate;
    numbers const first = sequence(1, n);
    std::vector<real> w(first.begin(), first.end()), v(n), m(n), step(n), r(rows), c(width), s_r(rows), s_c(width);
    // Averages the means of x over rows and columns, and returns the smallest mean.
    auto const averaged = [&](std::vector<real> const& x, real beta, real epsilon, auto& of_rows, auto& of_cols) {
        std::vector<real> row(rows), col(width);
        for (std::size_t i = 0; i < n; ++i) {
            row[i / width] += (x[i] + epsilon) / static_cast<real>(width);
            col[i % width] += (x[i] + epsilon) / static_cast<real>(rows);
        }
        real least = row[0];
        for (std::size_t i = 0; i < rows; ++i)
            of_rows[i] = beta * of_rows[i] + (1 - beta) * row[i], least = std::min(least, row[i]);
        for (std::size_t j = 0; j < width; ++j)
            of_cols[j] = beta * of_cols[j] + (1 - beta) * col[j], least = std::min(least, col[j]);
        return least;
    };
    auto const mean_of = [&](std::vector<real> const& of_rows) {
        real mean = 0;
        for (real const one : of_rows) mean += one / static_cast<real>(rows);
        return mean;
    };
    double error = 0, largest_u = 0, s = 0;
    for (std::size_t t = 1; t <= steps; ++t) {
        numbers const g = sequence(t + 1, n);
        std::vector<real> squares(n), residual(n);
        for (std::size_t i = 0; i < n; ++i) squares[i] = static_cast<real>(g[i]) * g[i];
        averaged(squares, rule.beta2, rule.epsilon1, r, c);
        real const mean_of_r = mean_of(r);
        real sum = 0;
        for (std::size_t i = 0; i < n; ++i) {
            v[i] = static_cast<real>(rule.beta2) * v[i] +
                   (1 - static_cast<real>(rule.beta2)) * (squares[i] + static_cast<real>(rule.epsilon1));
            step[i] = g[i] / std::sqrt(is_matrix ? r[i / width] * c[i % width] / mean_of_r : v[i]);
            sum += step[i] * step[i];
        }
        real const clip = std::max(real(1), std::sqrt(sum / count) / static_cast<real>(rule.d));
        for (std::size_t i = 0; i < n; ++i) {
            step[i] /= clip;
            m[i] = static_cast<real>(rule.beta1) * m[i] + (1 - static_cast<real>(rule.beta1)) * step[i];
            residual[i] = (step[i] - m[i]) * (step[i] - m[i]);
            largest_u = std::max(largest_u, static_cast<double>(std::abs(step[i])));
        }
        real const least = averaged(residual, rule.beta3, rule.epsilon2, s_r, s_c);
        real const mean_of_s = mean_of(s_r);
        real largest_w = 0, largest_factor = 1;
        for (std::size_t i = 0; i < n; ++i) {
            real const factor = is_matrix ? 1 / std::sqrt(s_r[i / width] * s_c[i % width] / mean_of_s) : real(1);
            largest_factor = std::max(largest_factor, factor);
            w[i] = w[i] * (1 - lr * static_cast<real>(decay)) - lr * m[i] * factor;
            largest_w = std::max(largest_w, std::abs(w[i]) + lr * std::abs(m[i] * factor));
        }
        double const steps_so_far = static_cast<double>(t), of_sum = static_cast<double>(n) * 0x1p-53;
        double const a = 3 * steps_so_far * (of_sum + 6 * u) + 12 * u + of_sum, of_m = a + 4 * steps_so_far * u;
        double const off = (a + of_m + u) * largest_u / std::sqrt(static_cast<double>(least));
        s = std::max(s, 2 * off + off * off) + of_sum + 6 * u;
        double const f = !is_matrix ? 0 : s < 1 ? 1.5 * s / (1 - s) + 6 * u : std::numeric_limits<double>::infinity();
        error += rate * static_cast<double>(largest_factor) * largest_u * (f + of_m + 4 * u) +
                 4 * u * static_cast<double>(largest_w);
    }
    return {w, error};
}
std::vector<gs::came> settings() {
    std::vector<gs::came> out(4);
    out[1].d = 0.5;
    out[2] = {.beta1 = 0.5, .beta2 = 0.75, .beta3 = 0.875, .epsilon1 = 1e-3, .epsilon2 = 1e-2};
    out[3].d = std::numeric_limits<double>::infinity();
    return out;
}

} // namespace

TEST_CASE("came: the formula", "[rules]") {
    auto const all = settings();
    for (gs::came const& rule : all)
        for (auto const [rows, cols] : shapes) {
            if (is_large({rows, cols}) && &rule != &all[0]) continue;
            CAPTURE(gs::describe(rule), rows, cols);
            auto const check = [&](auto const& found, double u) {
                auto const expected = by_formula(rule, rows, cols, u);
                CHECK(largest_difference(found, expected.w) <= expected.bound);
            };
            check(trained<double>(rule, gs::decoupled{decay}, rows, cols), 0x1p-53);
            check(trained<float>(rule, gs::decoupled{decay}, rows, cols), 0x1p-24);
        }
}

TEST_CASE("came: came-pytorch", "[rules]") {
    auto const check = [](gs::came const& rule, std::size_t rows, std::size_t cols, auto const& golden) {
        CAPTURE(gs::describe(rule), rows, cols);
        auto const found = trained<double>(rule, gs::decoupled{decay}, rows, cols);
        CHECK(largest_difference(found, golden) <= 2 * by_formula(rule, rows, cols, 0x1p-53).bound); // both round
    };
    check({}, 5, 8, golden::came_matrix);
    check({}, 40, 0, golden::came_vector);
    check({.beta1 = 0.5, .beta2 = 0.75, .beta3 = 0.875, .epsilon1 = 1e-3, .epsilon2 = 1e-2, .d = 0.5}, 8, 5,
          golden::came_options);
}

TEST_CASE("came: a rule that is wrong is not within the bound", "[rules]") {
    auto const right = by_formula({}, 8, 5, 0x1p-53);
    for (gs::came const& wrong : {gs::came{.beta1 = 0.9001}, gs::came{.beta2 = 0.9991}, gs::came{.beta3 = 0.9998}})
        CHECK(largest_difference(by_formula(wrong, 8, 5, 0x1p-53).w, right.w) > 10 * right.bound);
}

TEMPLATE_TEST_CASE("came: equal bits on every backend and number of threads", "[rules]", float,
                   gs::mixed<gs::bfloat16>) {
    check_bits<TestType>(gs::came{});
}

TEST_CASE("came: options, memory and what it refuses", "[rules]") {
    check_options(gs::came{});
    check_regularizers(gs::came{});
}
