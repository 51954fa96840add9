// muon against its formula in long double and against torch.optim.Muon and muon.py of Keller
// Jordan; what every backend and element has in common; and what it refuses.
#include <golden/muon_torch.hpp>
#include <support/catch.hpp>
#include <support/elements.hpp>
#include <support/muon_bound.hpp>
#include <support/refusal.hpp>

#include <gradstep/gradstep.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>
#include <gradstep/rules/muon.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace gs = gradstep;

namespace {

using real = long double;
using numbers = std::vector<double>;

constexpr double rate = 0.125, decay = 0.25, mu = 0.75;
constexpr std::size_t steps = 3;

// As in test/golden/muon_torch.py.
numbers sequence(std::size_t seed, std::size_t size) {
    numbers out(size);
    for (std::size_t i = 0; i < size; ++i)
        out[i] = (static_cast<double>((i * i * 7 + i * 13 * seed + 5 * seed) % 257) - 128) / 64;
    return out;
}
template <class T> std::vector<T> converted(numbers const& x) {
    std::vector<T> out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = T(static_cast<float>(x[i]));
    return out;
}
template <> std::vector<double> converted<double>(numbers const& x) { return x; }

// --- the formula

struct matrix {
    std::size_t rows, cols;
    std::vector<real> x;

    matrix(std::size_t r, std::size_t c) : rows(r), cols(c), x(r * c) {}
    real& operator()(std::size_t i, std::size_t j) { return x[i * cols + j]; }
    real operator()(std::size_t i, std::size_t j) const { return x[i * cols + j]; }
};
matrix product(matrix const& a, matrix const& b) {
    matrix out(a.rows, b.cols);
    for (std::size_t i = 0; i < a.rows; ++i)
        for (std::size_t j = 0; j < b.cols; ++j)
            for (std::size_t k = 0; k < a.cols; ++k) out(i, j) += a(i, k) * b(k, j);
    return out;
}
matrix transpose(matrix const& a) {
    matrix out(a.cols, a.rows);
    for (std::size_t i = 0; i < a.rows; ++i)
        for (std::size_t j = 0; j < a.cols; ++j) out(j, i) = a(i, j);
    return out;
}
real norm(matrix const& a) {
    real sum = 0;
    for (real const x : a.x) sum += x * x;
    return std::sqrt(sum);
}
// Newton-Schulz on a matrix with rows <= cols, as the paper writes it; other matrices are
// transposed.
matrix orthogonalized(matrix x, gs::muon const& rule) {
    if (x.rows > x.cols) return transpose(orthogonalized(transpose(x), rule));
    real const length = std::max(norm(x), real(rule.epsilon));
    for (real& one : x.x) one /= length;
    for (std::int64_t s = 0; s < rule.ns_steps; ++s) {
        matrix const a = product(x, transpose(x)), squared = product(a, a);
        matrix b(x.rows, x.rows);
        for (std::size_t i = 0; i < b.x.size(); ++i) b.x[i] = real(rule.b) * a.x[i] + real(rule.c) * squared.x[i];
        matrix const moved = product(b, x);
        for (std::size_t i = 0; i < x.x.size(); ++i) x.x[i] = real(rule.a) * x.x[i] + moved.x[i];
    }
    return x;
}
real factor(gs::muon_scale scale, std::size_t rows, std::size_t cols) {
    real const r = static_cast<real>(rows), c = static_cast<real>(cols);
    switch (scale) {
    case gs::muon_scale::original:
        return std::sqrt(std::max(real(1), r / c));
    case gs::muon_scale::match_rms_adamw:
        return real(0.2) * std::sqrt(std::max(r, c));
    case gs::muon_scale::spectral_unclamped:
        return std::sqrt(r / c);
    }
    return 0;
}
std::vector<real> weights_by_formula(gs::muon const& rule, std::size_t rows, std::size_t cols) {
    std::size_t const n = rows * cols;
    matrix w(rows, cols), m(rows, cols), u(rows, cols);
    numbers const first = sequence(1, n);
    std::copy(first.begin(), first.end(), w.x.begin());
    real const gain = rule.momentum == gs::muon_momentum::sum ? 1 : 1 - real(mu);
    for (std::size_t s = 0; s < steps; ++s) {
        numbers const g = sequence(s + 2, n);
        for (std::size_t i = 0; i < n; ++i) {
            m.x[i] = real(mu) * m.x[i] + gain * real(g[i]);
            u.x[i] = rule.nesterov ? gain * real(g[i]) + real(mu) * m.x[i] : m.x[i];
        }
        matrix const x = orthogonalized(u, rule);
        for (std::size_t i = 0; i < n; ++i)
            w.x[i] = w.x[i] * (1 - real(rate) * real(decay)) - real(rate) * factor(rule.scale, rows, cols) * x.x[i];
    }
    return w.x;
}

double bound(gs::muon const& rule, std::size_t rows, std::size_t cols, double u) {
    return muon_bound(rule, rows, cols, u, rate * static_cast<double>(factor(rule.scale, rows, cols)), steps);
}

// --- the library

template <class Optimizer>
auto shaped(Optimizer const&, auto& w, auto& g, auto& m, std::size_t rows, std::size_t cols) {
    gs::slice<Optimizer> x{w, g, m};
    x.shape = {rows, cols};
    return x;
}
template <class Element, class Backend = gs::simd_backend<>>
auto trained(gs::muon const& rule, std::size_t rows, std::size_t cols, Backend const& backend = Backend{}) {
    auto optimizer = gs::make_updater<Element>(rule, gs::decoupled{decay}, gs::constant{rate}, backend);
    using traits = typename decltype(optimizer)::traits;
    std::size_t const n = rows * cols;
    auto initial = converted<typename traits::storage>(sequence(1, n));
    gs::parameter w{optimizer, initial, {.id = 7, .shape = {rows, cols}}};
    for (std::size_t s = 0; s < steps; ++s)
        w.update(converted<typename traits::storage>(sequence(s + 2, n)), {.seed = 3});
    return std::vector(w.values().begin(), w.values().end());
}

struct shape_of_test {
    std::size_t rows, cols;
};
constexpr std::array shapes{shape_of_test{5, 8}, shape_of_test{8, 5}, shape_of_test{7, 7},    shape_of_test{1, 6},
                            shape_of_test{6, 1}, shape_of_test{1, 1}, shape_of_test{33, 129}, shape_of_test{67, 20}};
std::vector<gs::muon> settings() {
    gs::muon const first{.mu = mu};
    std::vector<gs::muon> out(5, first);
    out[1].nesterov = false;
    out[1].scale = gs::muon_scale::match_rms_adamw;
    out[2].scale = gs::muon_scale::spectral_unclamped;
    out[3].momentum = gs::muon_momentum::sum;
    out[4].ns_steps = 1;
    return out;
}

} // namespace

TEST_CASE("muon: the formula", "[rules]") {
    for (gs::muon const& rule : settings())
        for (auto const [rows, cols] : shapes) {
            CAPTURE(gs::describe(rule), rows, cols);
            auto const expected = weights_by_formula(rule, rows, cols);
            auto const check = [&](auto const& found, double u) {
                double worst = 0;
                for (std::size_t i = 0; i < found.size(); ++i)
                    worst = std::max(worst, std::abs(static_cast<double>(expected[i] - static_cast<real>(found[i]))));
                CHECK(worst <= bound(rule, rows, cols, u));
            };
            check(trained<double>(rule, rows, cols), 0x1p-53);
            check(trained<float>(rule, rows, cols), 0x1p-24);
        }
}

TEST_CASE("muon: torch.optim.Muon, and muon.py", "[rules]") {
    auto const check = [](gs::muon const& rule, std::size_t rows, std::size_t cols, auto const& golden, double other) {
        CAPTURE(gs::describe(rule), rows, cols);
        auto const found = trained<double>(rule, rows, cols);
        REQUIRE(found.size() == golden.size());
        double worst = 0;
        for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(found[i] - golden[i]));
        CHECK(worst <= 2 * bound(rule, rows, cols, 0x1p-53) + other); // both round
    };
    check({.mu = mu}, 5, 8, golden::torch_wide, 0);
    check({.mu = mu}, 8, 5, golden::torch_tall, 0);
    check({.mu = mu, .nesterov = false, .scale = gs::muon_scale::match_rms_adamw}, 8, 5, golden::torch_without_nesterov,
          0);
    check({.mu = mu, .scale = gs::muon_scale::spectral_unclamped, .ns_steps = 3, .a = 2, .b = -1.5, .c = 0.5}, 5, 8,
          golden::torch_spectral, 0);
    // muon.py divides by |u| + 1e-7. Here |u| > 1, so that X is off by at most 1e-7 before the
    // iterations, which make it at most 4.25^5 times as much.
    double const of_epsilon = 1e-7 * std::pow(4.25, 5) * rate * std::sqrt(8.0 / 5) * steps;
    check({.mu = mu}, 8, 5, golden::jordan_tall, of_epsilon);
}

TEST_CASE("muon: a rule that is wrong is not within the bound", "[rules]") {
    gs::muon const rule{.mu = mu};
    gs::muon wrong = rule;
    wrong.b = -4.7751;
    auto const expected = weights_by_formula(rule, 8, 5), found = weights_by_formula(wrong, 8, 5);
    real worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(expected[i] - found[i]));
    CHECK(static_cast<double>(worst) > 1000 * bound(rule, 8, 5, 0x1p-53));
}

TEMPLATE_LIST_TEST_CASE("muon: equal bits on every backend and number of threads", "[rules]", elements_of_policies) {
    gs::thread_pool pool{3};
    std::vector<gs::muon> const all = settings();
    for (gs::muon const& rule : all)
        for (auto const [rows, cols] : {shape_of_test{5, 8}, shape_of_test{301, 260}}) {
            if (rows > 5 && &rule != &all[0]) continue; // the products are the same
            CAPTURE(gs::describe(rule), rows, cols);
            auto const expected = trained<TestType>(rule, rows, cols, gs::serial_backend{});
            auto const same = [&](auto const& found) {
                return std::equal(found.begin(), found.end(), expected.begin(), [](auto a, auto b) {
                    return static_cast<double>(gs::detail::widen(a)) == static_cast<double>(gs::detail::widen(b));
                });
            };
            CHECK(same(trained<TestType>(rule, rows, cols, gs::simd_backend{})));
            CHECK(same(trained<TestType>(rule, rows, cols, gs::simd_backend{pool})));
        }
}

TEST_CASE("muon: the options of a step, a slice and a parameter", "[rules]") {
    constexpr std::size_t rows = 6, cols = 9, n = rows * cols;
    gs::muon const rule{.mu = mu};
    auto const w0 = converted<float>(sequence(1, n)), g0 = converted<float>(sequence(2, n));
    auto const optimizer = gs::make_updater<float>(rule, gs::l2{0.5}, gs::constant{rate});
    auto const by_hand = [&](gs::muon const& of, std::vector<float> g, double lr) {
        auto plain = gs::make_updater<float>(of, gs::constant{lr});
        std::vector<float> w = w0, m(n);
        plain.next_step()(shaped(plain, w, g, m, rows, cols));
        return w;
    };

    SECTION("gradient_scale and a regularizer change the gradient, and zero_gradient clears it") {
        auto own = optimizer;
        std::vector<float> w = w0, g = g0, m(n), expected_g = g0;
        for (std::size_t i = 0; i < n; ++i) expected_g[i] = std::fma(0.5f, w0[i], 0.25f * g0[i]);
        own.next_step({.gradient_scale = 0.25, .zero_gradient = true})(shaped(own, w, g, m, rows, cols));
        CHECK(w == by_hand(rule, expected_g, rate));
        CHECK(g == std::vector<float>(n));
        for (std::size_t i = 0; i < n; ++i) REQUIRE(m[i] == Approx(0.25f * expected_g[i]));
    }
    SECTION("decay, rate_scale and a copy in bfloat16 of a slice") {
        auto own = optimizer;
        std::vector<float> w = w0, g = g0, m(n);
        std::vector<gs::bfloat16> copy(n);
        auto x = shaped(own, w, g, m, rows, cols);
        x.decay = false;
        x.rate_scale = 0.5;
        x.bfloat16_copy = copy;
        own.next_step()(std::vector{x});
        CHECK(w == by_hand(rule, g0, rate / 2));
        for (std::size_t i = 0; i < n; ++i)
            REQUIRE(static_cast<float>(copy[i]) == static_cast<float>(gs::bfloat16(w[i])));
    }
    SECTION("a schedule of the momentum") {
        auto moving =
            gs::make_updater<float>(gs::scheduled{rule, gs::moving<"mu">(gs::constant{0.5})}, gs::constant{rate});
        std::vector<float> w = w0, g = g0, m(n);
        moving.next_step()(shaped(moving, w, g, m, rows, cols));
        gs::muon half = rule;
        half.mu = 0.5;
        CHECK(w == by_hand(half, g0, rate));
    }
    SECTION("a NaN reaches every weight, and is not hidden") {
        auto own = optimizer;
        std::vector<float> w = w0, g = g0, m(n);
        g[3] = std::numeric_limits<float>::quiet_NaN();
        own.next_step()(shaped(own, w, g, m, rows, cols));
        CHECK(std::isnan(w[3]));
        CHECK(std::isnan(w[n - 1]));
    }
    SECTION("without gradient the weight only decays") {
        auto own = gs::make_updater<float>(rule, gs::constant{rate});
        std::vector<float> w = w0, g(n), m(n);
        own.next_step()(shaped(own, w, g, m, rows, cols));
        CHECK(w == w0);
    }
    SECTION("column-major memory is the transpose") {
        auto own = gs::make_updater<float>(rule, gs::constant{rate});
        std::vector<float> w(n), g(n), m(n);
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j)
                w[j * rows + i] = w0[i * cols + j], g[j * rows + i] = g0[i * cols + j];
        gs::slice<decltype(own)> x{w, g, m};
        x.shape = {rows, cols, gs::memory_order::column_major};
        own.next_step()(x);
        auto const expected = by_hand(rule, g0, rate);
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j)
                REQUIRE(w[j * rows + i] == Approx(expected[i * cols + j]).margin(bound(rule, rows, cols, 0x1p-24)));
    }
    SECTION("a matrix without elements") {
        auto own = optimizer;
        std::vector<float> w, g, m;
        own.next_step()(shaped(own, w, g, m, 0, 4));
        own.next_step()(shaped(own, w, g, m, 0, 0));
        CHECK(own.clock().step == 2);
    }
}

TEST_CASE("muon: steps of several threads share their memory", "[rules]") {
    constexpr std::size_t rows = 40, cols = 30, n = rows * cols, tensors = 8;
    auto optimizer = gs::make_updater<float>(gs::muon{.mu = mu}, gs::constant{rate});
    auto const g = converted<float>(sequence(2, n));
    std::vector<std::vector<float>> w(tensors, converted<float>(sequence(1, n))), m(tensors, std::vector<float>(n));
    auto const step = optimizer.next_step();
    std::vector<std::thread> threads;
    for (std::size_t k = 0; k < tensors; ++k)
        threads.emplace_back([&, k] { step(shaped(optimizer, w[k], g, m[k], rows, cols)); });
    for (auto& each : threads) each.join();
    for (std::size_t k = 1; k < tensors; ++k) CHECK(w[k] == w[0]);
}

TEST_CASE("muon: a product of the application", "[rules]") {
    constexpr std::size_t rows = 5, cols = 8, n = rows * cols;
    std::size_t calls = 0;
    auto const slow = [&]<class T>(gs::matmul_call<T> const& x) {
        ++calls;
        for (std::size_t i = 0; i < x.m; ++i)
            for (std::size_t j = 0; j < x.n; ++j) {
                real sum = 0;
                for (std::size_t k = 0; k < x.k; ++k)
                    sum += static_cast<real>(x.transpose_a ? x.a[k * x.m + i] : x.a[i * x.k + k]) *
                           static_cast<real>(x.transpose_b ? x.b[j * x.k + k] : x.b[k * x.n + j]);
                T& to = x.c[i * x.n + j];
                to = static_cast<T>(real(x.alpha) * sum + (x.beta == 0 ? 0 : real(x.beta) * real(to)));
            }
    };
    gs::muon const rule{.mu = mu, .matmul = slow};
    for (auto const [r, c] : {shape_of_test{rows, cols}, shape_of_test{cols, rows}}) {
        calls = 0;
        auto const found = trained<double>(rule, r, c), expected = trained<double>({.mu = mu}, r, c);
        CHECK(calls == 3 * 5 * steps); // Newton-Schulz runs once a step
        for (std::size_t i = 0; i < n; ++i)
            REQUIRE(found[i] == Approx(expected[i]).margin(2 * bound(rule, r, c, 0x1p-53)));
    }
    auto const single = [](gs::matmul_call<float> const&) {};
    auto other = gs::make_updater<double>(gs::muon{.matmul = single}, gs::constant{rate});
    CHECK(refusal<gs::value_error>([&] { other.next_step(); }) ==
          "muon.matmul: the function takes no matmul_call<double>; expected a function that does, or the built-in "
          "product");
    CHECK(other.clock().step == 0);
}

TEST_CASE("muon: what it refuses", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::muon{}, gs::constant{rate});
    std::vector<float> w(12, 1), g(12, 1), m(12);
    auto const step = optimizer.next_step();
    std::string const no_shape =
        "has no shape, and muon needs a matrix; expected rows and columns: .shape of a slice or of "
        "parameter_options, or set_shape of a parameter or a model; give vectors to another rule";
    CHECK(refusal<gs::value_error>([&] { step(w, g, m); }) == "parameter: " + no_shape);
    std::vector<float> w2(12, 1), m2(12);
    std::vector const some{shaped(optimizer, w, g, m, 3, 4), gs::slice<decltype(optimizer)>{w2, g, m2}};
    CHECK(refusal<gs::value_error>([&] { step(some); }) == "tensor 1: parameter: " + no_shape);
    CHECK(refusal<gs::size_error>([&] { step(shaped(optimizer, w, g, m, 3, 5)); }) ==
          "shape: 3 x 5 for 12 elements; expected a shape with as many elements");
    CHECK(refusal<gs::size_error>([&] { step(shaped(optimizer, w, g, m, 0, 5)); }) ==
          "shape: 0 x 5 for 12 elements; expected a shape with as many elements");
    CHECK(refusal<gs::size_error>([&] {
              gs::parameter(optimizer, w, {.shape = {2, 5}});
          }) == "shape: 2 x 5 for 12 elements; expected a shape with as many elements");
    gs::parameter owned{optimizer, w};
    CHECK(refusal<gs::value_error>([&] { owned.update(g); }) == "parameter: " + no_shape);
    CHECK(owned.clock().step == 0);
    owned.set_shape({4, 3});
    CHECK(owned.update(g).applied);
    CHECK(w == std::vector<float>(12, 1));
    CHECK(m == std::vector<float>(12));

    CHECK(refusal<gs::value_error>([] { gs::make_updater<float>(gs::muon{.ns_steps = 100}, gs::constant{1}); }) ==
          "muon.ns_steps: 100 is out of range; expected 1 to 99");
    CHECK(refusal<gs::value_error>([] { gs::make_updater<float>(gs::muon{.mu = 1}, gs::constant{1}); }) ==
          "muon.mu: 1 is out of range; expected [0, 1)");
}

TEST_CASE("Every regularizer acts on the matrix of muon, as on the elements of other rules", "[rules]") {
    constexpr std::size_t rows = 9, cols = 6;
    auto const initial = converted<float>(sequence(1, rows * cols)), g = converted<float>(sequence(2, rows * cols));
    auto const stepped = [&](auto const& regularizer) {
        auto const optimizer = gs::make_updater<float>(gs::muon{}, regularizer, gs::constant{rate});
        gs::parameter w{optimizer, initial, {.shape = {rows, cols}}};
        w.update(g);
        return std::vector<float>(w.values().begin(), w.values().end());
    };
    // The condition of the decay needs the weight before the step.
    auto const plain = stepped(gs::none{}), cautious = stepped(gs::cautious_decay{0.5});
    std::size_t decayed = 0;
    for (std::size_t i = 0; i != plain.size(); ++i) {
        bool const towards_zero = std::copysign(1.0f, initial[i]) * plain[i] <= std::abs(initial[i]);
        decayed += towards_zero;
        CHECK(cautious[i] ==
              (towards_zero ? std::fma(-static_cast<float>(rate * 0.5), initial[i], plain[i]) : plain[i]));
    }
    CHECK((decayed > 0 && decayed < plain.size()));
    CHECK(stepped(gs::all_of{gs::decoupled{0.5}, gs::clamp_weight{.low = -10, .high = 10}}) ==
          stepped(gs::decoupled{0.5}));
    CHECK(stepped(gs::any_regularizer{gs::l2{0.5}}) == stepped(gs::l2{0.5}));
}

TEST_CASE("A shape joins the dimensions after the first one", "[rules]") {
    using extents = std::vector<std::uint64_t>;
    CHECK(gs::shape::of(extents{64, 3, 7, 7}) == gs::shape{64, 147});
    CHECK(gs::shape::of(extents{3, 4}) == gs::shape{3, 4});
    CHECK_FALSE(gs::shape::of(extents{12}).is_known());
    CHECK_FALSE(gs::shape::of(extents{}).is_known());
}
