// group_ftrl, group_adagrad, cowclip_adagrad and rowwise_rmsprop in numbers that can be checked by
// hand, against Monolith's own tests and against FBGEMM.
#include <golden/row_wise_torch.hpp>
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }

double norm(numbers const& x) {
    double sum = 0;
    for (double const one : x) sum += one * one;
    return std::sqrt(sum);
}

// What test/golden/row_wise_torch.py does to a table.
constexpr std::size_t rows = 5, width = 4;
std::vector<std::vector<std::int64_t>> const touched{{0, 1, 4}, {1, 2}, {0, 2}, {1}, {0, 1, 2, 3}, {1, 3}, {4}};
constexpr std::array rates{0.5, 0.25, 0.25, 0.125, 0.5, 0.0625, 0.25};

numbers sequence(std::size_t seed, std::size_t size) {
    numbers out(size);
    for (std::size_t i = 0; i < size; ++i)
        out[i] = (static_cast<double>((i * i * 7 + i * 13 * seed + 5 * seed) % 257) - 128) / 64;
    return out;
}
template <class T> std::vector<T> converted(numbers const& x) { return {x.begin(), x.end()}; }

// FBGEMM's numbers are floats below 8. A row has at most 5 steps, each with fewer than 24 roundings
// of numbers of that size; an error of a weight enters its next step by its norm, at most once.
constexpr double margin = 2 * 5 * 24 * 8 * 0x1p-24;

template <class Table, class Golden> void train_and_compare(Table& table, Golden const& golden) {
    for (std::size_t s = 0; s < touched.size(); ++s)
        table.update(touched[s], converted<float>(sequence(s + 2, touched[s].size() * width)), {.rate = rates[s]});
    for (std::size_t r = 0; r < rows; ++r) {
        auto const row = table.row(static_cast<std::int64_t>(r));
        for (std::size_t i = 0; i < width; ++i) {
            CAPTURE(r, i);
            CHECK(row[i] == Approx(golden[r * width + i]).epsilon(0).margin(margin));
        }
    }
}

} // namespace

TEST_CASE("group_ftrl: first steps", "[rules]") {
    auto optimizer =
        gs::make_updater<double>(gs::group_ftrl{.l1 = 1, .l2 = 0.5, .l21 = 2, .beta = 1}, gs::constant{0.5});
    numbers w(4), g{-4, 9, 0.5, -10}, y{7, 7, 7, 7}, n{7, 7, 7, 7};
    optimizer.initialize(w, y, n);
    CHECK((y == numbers(4) && n == numbers(4)));
    optimizer.next_step()(w, g, y, n);
    numbers const s{-3, 8, 0, -9};
    double const k = 1 - 2 * 2 / norm(s); // l21 * sqrt(4)
    for (std::size_t i = 0; i < 4; ++i) {
        double const q = (1 + std::abs(g[i])) / 0.5 + 0.5;
        CHECK(n[i] == g[i] * g[i]);
        CHECK(w[i] == about(-k * s[i] / q));
        CHECK(y[i] == about(g[i] - k * s[i]));
    }
    // The paper's z, with the rate of the step before.
    numbers const before = w, d{1, -2, 3, 5};
    numbers z = g, next(4), q(4);
    optimizer.next_step({.rate = 0.25})(w, d, y, n);
    for (std::size_t i = 0; i < 4; ++i) {
        double const q_before = (1 + std::abs(g[i])) / 0.5 + 0.5;
        q[i] = (1 + std::sqrt(g[i] * g[i] + d[i] * d[i])) / 0.25 + 0.5;
        z[i] += d[i] - (q[i] - q_before) * before[i];
        next[i] = std::copysign(std::max(std::abs(z[i]) - 1, 0.0), z[i]);
    }
    double const left = 1 - 4 / norm(next);
    for (std::size_t i = 0; i < 4; ++i) CHECK(w[i] == Approx(-left * next[i] / q[i]).epsilon(1e-13));
}

TEST_CASE("group_ftrl takes a row to 0, and back", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::group_ftrl{.l21 = 5}, gs::constant{0.5});
    numbers w(4), y(4), n(4);
    optimizer.next_step()(w, numbers{3, -4, 5, 6}, y, n); // below 5 * sqrt(4)
    CHECK(w == numbers(4));
    CHECK(y == numbers{3, -4, 5, 6});
    optimizer.next_step()(w, numbers{3, -4, 5, 6}, y, n); // above
    CHECK(w[0] == about(-(1 - 10 / norm({6, -8, 10, 12})) * 6 / ((1 + std::sqrt(18)) / 0.5)));
}

TEST_CASE("group_ftrl without penalties and with l1 alone is ftrl", "[rules]") {
    for (double const l1 : {0.0, 0.5}) {
        CAPTURE(l1);
        auto grouped = gs::make_updater<double>(gs::group_ftrl{.l1 = l1, .l2 = 0.25}, gs::constant{0.5});
        auto plain = gs::make_updater<double>(gs::ftrl{.l1 = l1, .l2 = 0.25}, gs::constant{0.5});
        numbers w(3), y(3), n(3), x(3), z(3), sum(3);
        for (int t = 0; t < 20; ++t) {
            numbers const g{std::sin(t), 0.25 * std::cos(2 * t), 1};
            double const rate = t < 10 ? 0.5 : 0.125;
            grouped.next_step({.rate = rate})(w, g, y, n);
            plain.next_step({.rate = rate})(x, g, z, sum);
            // 20 steps, with fewer than 16 roundings each of numbers below 64 over a q of at least
            // 2.
            for (std::size_t i = 0; i < 3; ++i) CHECK(w[i] == Approx(x[i]).epsilon(0).margin(20 * 16 * 32 * 0x1p-53));
        }
        CHECK(n == sum);
    }
}

TEST_CASE("group_ftrl at a rate of 0 gathers gradients for weights of 0 only", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::group_ftrl{.l21 = 1}, gs::constant{0});
    numbers w{0, 2}, y{1, 1}, n(2);
    optimizer.next_step()(w, numbers{3, 3}, y, n);
    CHECK((w == numbers{0, 2} && y == numbers{4, 1} && n == numbers{9, 9}));
}

TEST_CASE("group_ftrl refuses a divisor that can be 0", "[rules]") {
    CHECK_THROWS_AS(gs::make_updater<float>(gs::group_ftrl{.beta = 0}, gs::constant{1}), gs::value_error);
    CHECK_NOTHROW(gs::make_updater<float>(gs::group_ftrl{.beta = 0, .initial_accumulator = 0.1}, gs::constant{1}));
}

TEST_CASE("group_adagrad: Monolith's own tests", "[rules]") {
    struct step {
        std::vector<float> gradient, expected;
    };
    struct run {
        double l21;
        std::vector<step> steps;
    };
    // monolith/native_training/runtime/hash_table/optimizer/group_adagrad_optimizer_test.cc, good
    // to 1e-6 there too.
    std::vector<run> const runs{{1, {{{10}, {-0.008182f}}, {{10}, {-0.014125f}}}},
                                {0.5, {{{10, 1}, {-0.008639f, -0.000864f}}, {{1, 5}, {-0.009096f, -0.004778f}}}},
                                {0, {{{10, 1}, {-0.009091f, -0.000909f}}}},
                                {1000, {{{10, 1}, {0, 0}}}}};
    for (run const& one : runs) {
        CAPTURE(one.l21);
        auto optimizer = gs::make_updater<float>(gs::group_adagrad{.l21 = one.l21, .beta = 1, .initial_accumulator = 0},
                                                 gs::constant{0.01});
        std::vector<float> w(one.steps[0].gradient.size()), n(1);
        for (step const& s : one.steps) {
            optimizer.next_step()(w, s.gradient, n);
            for (std::size_t i = 0; i < w.size(); ++i) CHECK(w[i] == Approx(s.expected[i]).epsilon(0).margin(1e-6));
        }
    }
}

TEST_CASE("group_adagrad: the maximum over all blocks, and the norm of the row", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::group_adagrad{.l21 = 50, .initial_accumulator = 11}, gs::constant{3});
    numbers w(10'001, 1.0), g(w.size()), n(1);
    optimizer.initialize(w, n);
    CHECK(n[0] == 11);
    for (std::size_t const largest : {0u, 31u, 4095u, 4096u, 10'000u}) {
        CAPTURE(largest);
        std::ranges::fill(w, 1.0);
        std::ranges::fill(g, 1.0);
        g[largest] = -5;
        n = {11};
        optimizer.next_step()(w, g, n);
        CHECK(n[0] == 36);
        double const of_others = 1 - 3.0 / 6, of_it = 1 + 5 * 3.0 / 6;
        double const size = std::sqrt(10'000 * of_others * of_others + of_it * of_it), share = 1 - 0.5 * 50 / size;
        CHECK(w[largest] == about(share * of_it));
        CHECK(w[5000] == about(share * of_others));
    }
}

TEST_CASE("group_adagrad: a NaN anywhere is the maximum", "[rules]") {
    for (std::size_t const at : {0u, 33u, 4100u}) {
        auto optimizer = gs::make_updater<float>(gs::group_adagrad{}, gs::constant{1});
        std::vector<float> w(5000), g(5000, 1), n(1);
        g[at] = NAN;
        optimizer.next_step()(w, g, n);
        CHECK(std::isnan(n[0]));
        CHECK(std::ranges::all_of(w, [](float x) { return std::isnan(x); }));
    }
}

TEST_CASE("cowclip_adagrad: first steps", "[rules]") {
    auto optimizer = gs::make_updater<double>(
        gs::cowclip_adagrad{.clip_ratio = 0.5, .lower_bound = 1, .count_decay = 0.5, .epsilon = 1}, gs::constant{0.5});
    numbers w{3, 4}, g{6, 8}, c{7}, n{7};
    optimizer.initialize(w, c, n);
    CHECK((c[0] == 0 && n[0] == 0));
    optimizer.next_step()(w, g, c, n); // the limit of the norm, which is 10, is 1 * 0.5 * 5
    CHECK((c[0] == 1 && n[0] == 50));
    CHECK(w[0] == about(3 - 0.5 / (std::sqrt(50) + 1) * 0.25 * 6));
    numbers const still = w;
    optimizer.next_step()(w, numbers{0, 0}, c, n);
    CHECK((w == still && c[0] == 0.5 && n[0] == 50));
    w = {0, 0};
    optimizer.next_step()(w, numbers{0, 1.5}, c, n); // the lower bound, times 1.25
    CHECK(c[0] == 1.25);
    CHECK(w[1] == about(-0.5 / (std::sqrt(51.125) + 1) * 1.25));
    w = {0, 0};
    optimizer.next_step()(w, numbers{0, 1.5}, c, n); // the limit is above the norm
    CHECK(w[1] == about(-0.5 / (std::sqrt(52.25) + 1) * 1.5));
}

TEST_CASE("cowclip_adagrad in a table is FBGEMM's", "[rules]") {
    // A half-life of 2 steps.
    gs::cowclip_adagrad const rule{
        .clip_ratio = 0.25, .lower_bound = 0.125, .count_decay = std::sqrt(0.5), .epsilon = 0.001};
    auto const optimizer = gs::make_updater<float>(rule, gs::constant{1});
    auto const start = converted<float>(sequence(1, rows * width));
    gs::table table{optimizer, rows, width, gs::exact{}, {.initial = start}};
    train_and_compare(table, golden::cowclip_adagrad);
    for (std::size_t r = 0; r < rows; ++r) {
        CAPTURE(r);
        CHECK(table.state<"n">()[r] == Approx(golden::cowclip_adagrad[rows * width + r]).epsilon(16 * 0x1p-24));
        // FBGEMM saves the count of the row's last update, without the decay since then.
        double const last = golden::cowclip_adagrad[rows * width + rows + r];
        double const now = golden::cowclip_adagrad[rows * width + 2 * rows + r] * std::pow(0.5, (7 - last) / 2);
        table.flush();
        CHECK(table.state<"c">()[r] == Approx(now).epsilon(16 * 0x1p-24));
    }
}

TEST_CASE("rowwise_rmsprop: first steps, and a step without gradient", "[rules]") {
    auto optimizer = gs::make_updater<double>(gs::rowwise_rmsprop{.beta = 0.75, .epsilon = 1}, gs::constant{0.5});
    numbers w{1, -2}, v{7};
    optimizer.initialize(w, v);
    CHECK(v[0] == 0);
    optimizer.next_step()(w, numbers{8, 16}, v); // the mean of the squares is 160
    CHECK(v[0] == 40);
    CHECK(w[0] == about(1 - 0.5 * 8 / (std::sqrt(40) + 1)));
    numbers const before = w;
    optimizer.next_step()(w, numbers{0, 0}, v);
    CHECK((w == before && v[0] == 40));
    optimizer.next_step()(w, numbers{0, 2}, v);
    CHECK(v[0] == 30.5);
    CHECK((w[0] == before[0] && w[1] == about(before[1] - 0.5 * 2 / (std::sqrt(30.5) + 1))));
}

TEST_CASE("rowwise_rmsprop in a table is FBGEMM's without a decay, under every policy", "[rules]") {
    auto const optimizer =
        gs::make_updater<float>(gs::rowwise_rmsprop{.beta = 0.75, .epsilon = 0.001}, gs::constant{1});
    auto const start = converted<float>(sequence(1, rows * width));
    auto const check = [&](auto policy) {
        gs::table table{optimizer, rows, width, policy, {.initial = start}};
        train_and_compare(table, golden::rowwise_rmsprop);
        for (std::size_t r = 0; r < rows; ++r)
            CHECK(table.template state<"v">()[r] ==
                  Approx(golden::rowwise_rmsprop[rows * width + r]).epsilon(16 * 0x1p-24));
    };
    check(gs::touch_only{});
    check(gs::exact{});
    check(gs::replay{10});
}

namespace {

// The rows of FBGEMM's rowwise_rmsprop_ar, if `shrink(gap, t)` is what a row is multiplied by at
// step t.
template <class Shrink> numbers rows_of_rmsprop_ar(Shrink const& shrink) {
    numbers w = sequence(1, rows * width), v(rows);
    std::vector<std::size_t> last(rows);
    for (std::size_t s = 0; s < touched.size(); ++s) {
        auto const g = sequence(s + 2, touched[s].size() * width);
        for (std::size_t k = 0; k < touched[s].size(); ++k) {
            auto const r = static_cast<std::size_t>(touched[s][k]);
            double mean = 0;
            for (std::size_t i = 0; i < width; ++i) mean += g[k * width + i] * g[k * width + i] / width;
            v[r] = 0.75 * v[r] + 0.25 * mean;
            double const by = shrink(last[r], s + 1);
            last[r] = s + 1;
            for (std::size_t i = 0; i < width; ++i)
                w[r * width + i] = by * w[r * width + i] - rates[s] / (std::sqrt(v[r]) + 0.001) * g[k * width + i];
        }
    }
    return w;
}

} // namespace

TEST_CASE("rowwise_rmsprop with a decay shrinks a row by the rate of each step that it missed", "[rules]") {
    constexpr double alpha = 0.0625;
    // FBGEMM: the gap times the rate of today; the first gap is 1.
    auto const theirs = rows_of_rmsprop_ar([](std::size_t last, std::size_t t) {
        double const gap = last == 0 ? 1 : static_cast<double>(t - last);
        return 1 - rates[t - 1] * alpha * gap;
    });
    for (std::size_t i = 0; i < theirs.size(); ++i)
        CHECK(theirs[i] == Approx(golden::rowwise_rmsprop_ar[i]).epsilon(0).margin(margin));

    auto const ours = rows_of_rmsprop_ar([](std::size_t last, std::size_t t) {
        double by = 1;
        for (std::size_t s = last; s < t; ++s) by *= 1 - rates[s] * alpha;
        return by;
    });
    auto const optimizer = gs::make_updater<double>(gs::rowwise_rmsprop{.beta = 0.75, .epsilon = 0.001},
                                                    gs::decoupled{alpha}, gs::constant{1});
    gs::table table{optimizer, rows, width, gs::exact{}, {.initial = sequence(1, rows * width)}};
    for (std::size_t s = 0; s < touched.size(); ++s)
        table.update(touched[s], sequence(s + 2, touched[s].size() * width), {.rate = rates[s]});
    auto const last_of = [](std::size_t r) {
        std::size_t last = 0;
        for (std::size_t s = 0; s < touched.size(); ++s)
            if (std::ranges::count(touched[s], static_cast<std::int64_t>(r)) != 0) last = s + 1;
        return last;
    };
    for (std::size_t r = 0; r < rows; ++r) {
        double pending = 1;
        for (std::size_t s = last_of(r); s < touched.size(); ++s) pending *= 1 - rates[s] * alpha;
        auto const row = table.row(static_cast<std::int64_t>(r));
        for (std::size_t i = 0; i < width; ++i)
            CHECK(row[i] == Approx(pending * ours[r * width + i]).epsilon(0).margin(margin * 0x1p-29));
    }
}
