// Averages of rows: what a row that was away has taken in when it comes back, against a dense run
// that saw g = 0 on every step; how they are read, and put in the weights' place.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/rows.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t rows = 4, width = 3;

// Multiples of 1/8, so that they are equal in every type.
template <class T> std::vector<T> numbers(std::size_t n, std::uint32_t seed) {
    std::vector<T> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = T(static_cast<float>(std::round(8 * gradient_number(seed, i))) / 8);
    return out;
}
template <class T> bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
    return difference(std::span(a), std::span(b), "") == "";
}

// Which rows step t names: row 0 now and then, row 1 after ever longer gaps, row 2 once, row 3
// never.
std::vector<std::int32_t> named(std::int64_t t) {
    std::vector<std::int32_t> out;
    if (t % 7 == 3 || t % 1000 == 999) out.push_back(0);
    if ((t & (t - 1)) == 0) out.push_back(1);
    if (t == 5) out.push_back(2);
    return out;
}
double rate_of(std::int64_t t) { return 0.05 * (1 + std::cos(static_cast<double>(t) / 3000)); }

// A table beside a dense run of the same optimizer in double.
template <class T, class Policy, class Regularizer, class CatchUp> struct beside_dense {
    static auto optimizer(Policy const& rule, Regularizer const& regularizer) {
        return gs::make_updater<T>(rule, regularizer, gs::external{});
    }
    using dense_updater =
        decltype(gs::make_updater<double>(std::declval<Policy>(), std::declval<Regularizer>(), gs::external{}));

    gs::table<decltype(optimizer(std::declval<Policy>(), std::declval<Regularizer>())), CatchUp> table;
    gs::parameter<dense_updater> dense;
    std::vector<double> largest = std::vector<double>(dense_updater::slots + 1); // of every slot, and of the weight
    std::int64_t steps = 0;

    beside_dense(Policy const& rule, Regularizer const& regularizer, CatchUp catch_up, std::int64_t max_history)
        : table(optimizer(rule, regularizer), rows, width, catch_up,
                {.initial = numbers<T>(rows * width, 1), .max_history = max_history}),
          dense(gs::make_updater<double>(rule, regularizer, gs::external{}), numbers<double>(rows * width, 1)) {}

    void step() {
        auto const ids = named(steps);
        auto const seed = static_cast<std::uint32_t>(steps);
        std::vector<double> g(rows * width);
        for (std::int32_t const id : ids)
            std::ranges::copy(numbers<double>(width, seed + static_cast<std::uint32_t>(id)),
                              g.begin() + id * static_cast<std::ptrdiff_t>(width));
        std::vector<T> of_rows;
        for (std::int32_t const id : ids)
            for (std::size_t i = 0; i < width; ++i)
                of_rows.push_back(static_cast<T>(g[static_cast<std::size_t>(id) * width + i]));
        table.update(ids, of_rows, {.rate = rate_of(steps)});
        dense.update(g, {.rate = rate_of(steps)});
        ++steps;
        for (std::size_t k = 0; k <= dense_updater::slots; ++k)
            for (double const x : slot(k)) largest[k] = std::max(largest[k], std::abs(x));
    }
    std::span<double const> slot(std::size_t k) const {
        if (k == dense_updater::slots) return dense.values();
        return dense.state(dense_updater::state_names[k]);
    }
    // `roundings`: of each side, in units of what they round at, of the largest number that a
    // quantity has had.
    void check_equal(double roundings) {
        double const unit = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
        auto copy = table;
        copy.flush();
        auto const memory = copy.memory();
        std::size_t wrong = 0;
        double worst = 0;
        for (std::size_t k = 0; k <= dense_updater::slots; ++k)
            for (std::size_t i = 0; i < rows * width; ++i) {
                double const got =
                    static_cast<double>(k == dense_updater::slots ? memory.values[i] : memory.state[k][i]);
                double const off = std::abs(got - slot(k)[i]) / largest[k];
                wrong += !(off <= roundings * unit) && largest[k] != 0;
                worst = std::max(worst, off / unit);
            }
        CAPTURE(steps, worst);
        CHECK(wrong == 0);
        check_reading(roundings);
    }
    // Averages equal the averages of the dense run, without a flush.
    void check_reading(double roundings) const {
        double const unit = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
        auto const expected = dense.average();
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < rows; ++r) {
            auto const got = table.average(static_cast<std::int64_t>(r));
            for (std::size_t i = 0; i < width; ++i)
                wrong += !(std::abs(static_cast<double>(got[i]) - expected[r * width + i]) <=
                           (roundings + 4) * unit * largest.back());
        }
        CHECK(wrong == 0);
    }
};

// Every step of the dense run rounds a number four times at most (decay, step, average, fold), and
// passes on what was off before, `amplified` times where a momentum carries it on.
template <class T = double, class Policy, class Regularizer, class CatchUp>
void follow(Policy const& rule, Regularizer const& regularizer, CatchUp catch_up, std::int64_t steps,
            double amplified = 1) {
    for (std::int64_t const max_history : {16, 0}) {
        CAPTURE(gs::describe(rule), gs::describe(regularizer), max_history);
        beside_dense<T, Policy, Regularizer, CatchUp> both(rule, regularizer, catch_up, max_history);
        for (std::int64_t t = 1; t <= steps; ++t) {
            both.step();
            // In float a row rounds where it is touched or swept, each time a few numbers.
            double const rounded = std::is_same_v<T, double> ? static_cast<double>(t) : 64 + static_cast<double>(t) / 4;
            if (t < 40 || t == 999 || t == 1000 || t == 16'383 || t == 16'384 || t == steps)
                both.check_equal(4 * amplified * rounded);
        }
    }
}

// The orders in which windows close beside folds: before, after, and at them.
constexpr gs::window growing{.rate = 0.3, .min = 2, .max = 10'000}, at_folds{.rate = 1, .min = 16'384, .max = 16'384};
[[maybe_unused]] constexpr gs::window wide{.rate = 0.9, .min = 20'000, .max = 30'000};
// Folds come after 16 384 steps.
#if defined(GRADSTEP_SANITIZED)
constexpr std::int64_t with_folds = 17'000;
#else
constexpr std::int64_t with_folds = 40'000;
#endif

} // namespace

TEST_CASE("averages of rows that stand still or shrink are those of a dense run", "[rows][averages]") {
    follow(gs::averaged{gs::sgd{}, gs::ema{0.99}}, gs::decoupled{0.01}, gs::exact{}, 3000);
    follow(gs::averaged{gs::sgd{}, growing}, gs::l2{0.01}, gs::exact{}, with_folds);
#if GRADSTEP_TEST_EVERYTHING // each is one more type of table and of parameter to compile
    follow(gs::averaged{gs::sgd{}, gs::ema{0.9, true, 20}}, gs::none{}, gs::exact{}, 1000);
    follow(gs::averaged{gs::adagrad{}, wide}, gs::none{}, gs::exact{}, 40'000);
    follow(gs::averaged{gs::rmsprop{.rho = 0.9}, gs::polyak{30}}, gs::proximal{gs::l2{0.02}}, gs::exact{}, 3000, 4);
    follow<float>(gs::averaged{gs::adagrad{}, growing}, gs::none{}, gs::exact{}, 2000);
#endif
}

TEST_CASE("averages of rows that momentum carries on are those of a dense run", "[rows][averages]") {
    follow(gs::averaged{gs::momentum{0.9}, at_folds}, gs::l2{0.01}, gs::exact{}, with_folds, 40);
#if GRADSTEP_TEST_EVERYTHING // an average around an average
    follow(gs::averaged{gs::averaged{gs::nesterov{0.5}, gs::ema{0.9}}, growing}, gs::decoupled{0.05}, gs::exact{}, 2000,
           8);
#endif
}

TEST_CASE("lookahead pulls rows that are away as it does in a dense run", "[rows][averages]") {
    // A pull rounds a weight and its slow weight once more each: twice as many roundings as an
    // average.
    gs::lookahead const seven{.period = 7, .alpha = 0.3};
    follow(gs::averaged{gs::sgd{}, seven}, gs::decoupled{0.01}, gs::exact{}, 3000, 2);
    follow(gs::averaged{gs::momentum{0.9}, gs::lookahead{}}, gs::l2{0.01}, gs::exact{}, 2000, 80);
    follow(gs::averaged{gs::adam{.beta1 = 0.5, .beta2 = 0.75}, seven}, gs::none{}, gs::replay{100'000}, 2000, 80);
#if GRADSTEP_TEST_EVERYTHING // beside an average, and around a rule that does not move rows
    follow(gs::averaged{gs::averaged{gs::adagrad{}, seven}, growing}, gs::decoupled{0.05}, gs::exact{}, 2000, 8);
    follow<float>(gs::averaged{gs::adagrad{}, seven}, gs::none{}, gs::exact{}, 2000, 2);
#endif
    // After two repeated steps adam moves nothing, and the slow weights go on to pull: 3 of 4 steps
    // are in the rest.
    auto const optimizer = gs::make_updater<double>(
        gs::averaged{gs::adam{.beta1 = 0.5}, gs::lookahead{.period = 4, .alpha = 0.5}}, gs::constant{0.1});
    gs::table table{optimizer, 1, 1, gs::replay{2}, {.initial = 0.5}};
    std::vector<std::int32_t> const one{0}, none;
    table.update(one, std::vector<double>{1});
    for (int t = 2; t <= 3; ++t) table.update(none, std::vector<double>{});
    double const before = table.row(0)[0];
    CHECK(table.average(0)[0] == 0.5);
    for (int t = 4; t <= 9; ++t) table.update(none, std::vector<double>{});
    double const slow = 0.5 + 0.5 * (before - 0.5); // at step 4; nothing is left to pull at step 8
    CHECK(std::abs(table.row(0)[0] - slow) <= 8 * 0x1p-53);
    CHECK(std::abs(table.average(0)[0] - slow) <= 8 * 0x1p-53);
    // A replay does not stop where adam moves nothing more, long before the pull of step 250.
    auto const late = gs::make_updater<double>(
        gs::averaged{gs::adam{.beta1 = 0.5, .beta2 = 0.75}, gs::lookahead{.period = 250}}, gs::constant{0.1});
    gs::table away{late, 1, 1, gs::replay{1000}, {.initial = 0.5}};
    gs::parameter dense{late, std::vector<double>{0.5}};
    for (int t = 1; t <= 300; ++t) {
        if (t == 1) away.update(one, std::vector<double>{1});
        else away.update(none, std::vector<double>{});
        dense.update(std::vector<double>{t == 1 ? 1.0 : 0.0});
    }
    CHECK(away.row(0)[0] == dense.values()[0]);
    CHECK(away.average(0)[0] == dense.average()[0]);
}

TEST_CASE("rows that are away decay towards their initial values as in a dense run", "[rows][averages]") {
    // A pull rounds the distance, the share and the weight: as many roundings more as of an
    // average, and one.
    gs::towards_initial const some{0.02};
    follow(gs::averaged{gs::sgd{}, some}, gs::none{}, gs::exact{}, 3000, 2);
    follow(gs::averaged{gs::adam{.beta1 = 0.5, .beta2 = 0.75}, some}, gs::none{}, gs::replay{100'000}, 1000, 80);
#if GRADSTEP_TEST_EVERYTHING // beside a decay towards 0, under momentum, beside lookahead and an average
    follow(gs::averaged{gs::sgd{}, some}, gs::decoupled{0.01}, gs::exact{}, 2000, 2);
    follow(gs::averaged{gs::momentum{0.9}, some}, gs::l2{0.01}, gs::exact{}, 2000, 80);
    follow(gs::averaged{gs::averaged{gs::adagrad{}, some}, gs::lookahead{.period = 7, .alpha = 0.3}}, gs::none{},
           gs::exact{}, 2000, 4);
    follow(gs::averaged{gs::averaged{gs::adagrad{}, some}, growing}, gs::none{}, gs::exact{}, 2000, 8);
    follow<float>(gs::averaged{gs::adagrad{}, some}, gs::none{}, gs::exact{}, 2000, 2);
#endif
    // A row at its initial value stays there, and a distance of 1 shrinks as its closed form says,
    // however small the decay is beside the 1: the bounds do not grow with the number of steps.
    auto const optimizer =
        gs::make_updater<double>(gs::averaged{gs::sgd{}, gs::towards_initial{1e-12}}, gs::constant{0.75});
    gs::table table{optimizer, 2, 1, gs::exact{}, {.initial = 3.0, .max_history = 1 << 18}};
    std::vector<std::int32_t> const one{0}, none;
    table.update(one, std::vector<double>{-4.0 / 3});
    int const away = 100'000;
    for (int t = 0; t < away; ++t) table.update(none, std::vector<double>{});
    long double const share = 0.75L * 1e-12;
    long double const distance = (1 - share) * std::exp(away * std::log1p(-share));
    CHECK(std::abs(table.row(0)[0] - (3 + distance)) <= 8 * 0x1p-53L * 4);
    CHECK(std::abs(table.row(0)[0] - 4) > 1e-8); // it has moved
    CHECK(std::abs(table.row(1)[0] - 3) <= 2 * 0x1p-53 * 4);
    // touch_only: only the steps that contain a row.
    gs::table lazy{gs::make_updater<double>(gs::averaged{gs::sgd{}, gs::towards_initial{1}}, gs::constant{0.5}),
                   2,
                   1,
                   gs::touch_only{},
                   {.initial = 8.0}};
    lazy.update(one, std::vector<double>{4});
    CHECK(lazy.row(0)[0] == 7);
    lazy.update(none, std::vector<double>{});
    CHECK(lazy.row(0)[0] == 7);
    lazy.update(one, std::vector<double>{0});
    CHECK(lazy.row(0)[0] == 7.5);
}

TEST_CASE("averages take in the steps that replay repeats, and those that it does not", "[rows][averages]") {
#if GRADSTEP_TEST_EVERYTHING
    follow(gs::averaged{gs::adam{.beta1 = 0.5, .beta2 = 0.75}, growing}, gs::none{}, gs::replay{100'000}, 3000, 40);
#endif
    // After two repeated steps, the weight does not change in the other pending ones.
    double const beta1 = 0.5, beta2 = 0.75, decay = 0.9, rate = 0.1;
    std::int64_t const gap = 50, repeated = 2;
    auto const optimizer = gs::make_updater<double>(
        gs::averaged{gs::adam{.beta1 = beta1, .beta2 = beta2, .epsilon = 1e-8}, gs::ema{decay}}, gs::constant{rate});
    gs::table table{optimizer, 1, width, gs::replay{repeated}, {.initial = 0.5}};
    std::vector<std::int32_t> const one{0}, none;
    std::vector<double> const g{1, -0.5, 0.25}, nothing;
    table.update(one, g);
    for (std::int64_t t = 0; t < gap; ++t) table.update(none, nothing);
    for (std::size_t i = 0; i < width; ++i) {
        long double w = 0.5L, m = 0, v = 0, average = 0.5L;
        for (int t = 1; t <= 1 + gap; ++t) {
            long double const gradient = t == 1 ? g[i] : 0.0L;
            m = beta1 * m + (1 - beta1) * gradient;
            v = beta2 * v + (1 - beta2) * gradient * gradient;
            if (t <= 1 + repeated)
                w -= rate * (m / (1 - std::pow(static_cast<long double>(beta1), t))) /
                     (std::sqrt(v / (1 - std::pow(static_cast<long double>(beta2), t))) + 1e-8L);
            average = decay * average + (1 - static_cast<long double>(decay)) * w;
        }
        CHECK(std::abs(table.average(0)[i] - average) <= 64 * 0x1p-53L);
        CHECK(std::abs(table.row(0)[i] - w) <= 64 * 0x1p-53L);
    }
}

TEST_CASE("averages of a table of bfloat16 with a master copy are of the master copy", "[rows][averages]") {
    auto const optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(
        gs::averaged{gs::sgd{}, gs::window{.rate = 1, .min = 3, .max = 3}}, gs::constant{0.01});
    gs::table table{optimizer, 2, 1, gs::exact{}, {.initial = 1.0}};
    std::vector<std::int32_t> const one{1}, none;
    std::vector<gs::bfloat16> const g{gs::bfloat16(0.125f)}, nothing;
    table.update(one, g);
    table.update(none, nothing);
    float const master = std::fma(-0.01f, 0.125f, 1.0f);
    CHECK(float(table.row(1)[0]) == 1); // which bfloat16 cannot tell from 1
    CHECK(table.average(1)[0] == (master + master) / 2);
    {
        auto const applied = table.apply_average();
        CHECK(float(table.row(1)[0]) == 1);
    }
    CHECK(table.state<"master">()[1] == master);
    // Readers see the average, and not the master copy, which keeps what was trained.
    for (int t = 0; t < 3; ++t) table.update(one, std::vector<gs::bfloat16>{gs::bfloat16(-100.0f)});
    float const trained = float(table.row(1)[0]), average = table.average(1)[0];
    CHECK(std::abs(trained - average) > 0.5f);
    {
        auto const applied = table.apply_average();
        CHECK(float(table.row(1)[0]) == float(gs::bfloat16(average)));
        CHECK(float(table.values()[1]) == float(gs::bfloat16(average)));
    }
    CHECK(float(table.row(1)[0]) == trained);
}

TEST_CASE("rows that come to a table are averaged as if they had stood as they are", "[rows][averages]") {
    auto const check = [](auto const& average) {
        auto const optimizer = gs::make_updater<double>(gs::averaged{gs::adagrad{}, average}, gs::constant{0.1});
        gs::table table{optimizer, 2, 1, gs::exact{}, {.initial = 0.5}};
        std::vector<std::int32_t> const one{1}, none;
        for (int t = 0; t < 33; ++t) table.update(one, std::vector<double>{1});
        table.reset(one);
        table.grow(3);
        table.grow(5, gs::new_rows::since_the_start);
        for (int t = 0; t < 20; ++t) {
            for (std::int64_t const id : {1, 2, 4}) CHECK(std::abs(table.average(id)[0] - 0.5) <= 64 * 0x1p-53);
            table.update(none, std::vector<double>{});
        }
    };
    check(gs::window{.rate = 0.5, .min = 3, .max = 10});
    check(gs::window{.rate = 1, .min = 1000, .max = 1000});
    check(gs::polyak{5});
    check(gs::ema{0.9, true, 3});
    auto const nested = gs::make_updater<float>(
        gs::averaged{gs::averaged{gs::sgd{}, gs::window{.rate = 1, .min = 9, .max = 9}}, gs::ema{0.5}},
        gs::constant{1});
    gs::table table{nested, 1, 1, gs::exact{}, {.initial = 2.0}};
    for (int t = 0; t < 13; ++t) table.update(std::vector<std::int32_t>{}, std::vector<float>{});
    table.reset(std::vector<std::int32_t>{0});
    CHECK(table.state<"sum_1">()[0] == 2 * 4);
    CHECK(table.state<"sum_3">()[0] == 2 * 9);
}

TEST_CASE("averages take the place of a table's rows, and give it back bit for bit", "[rows][averages]") {
    auto const optimizer =
        gs::make_updater<float>(gs::averaged{gs::momentum{}, growing}, gs::l2{0.01}, gs::constant{0.05});
    constexpr std::size_t columns = 64; // so many elements as a segment has at least are few rows
    auto const train = [](auto& table, std::int64_t from, std::int64_t to) {
        for (std::int64_t t = from; t < to; ++t) {
            auto const ids = named(t);
            table.update(ids, numbers<float>(ids.size() * columns, static_cast<std::uint32_t>(t)));
        }
    };
    gs::table table{optimizer, rows, columns, gs::exact{}, {.initial = 0.5}}, plain = table;
    for (auto* const of : {&table, &plain}) {
        train(*of, 0, 50);
        of->grow(rows + 17'000);
        of->grow(rows + 35'000); // a second segment
        train(*of, 50, 100);
    }
    REQUIRE(table.segments() > 1);
    std::vector<std::int64_t> const ids{2, 0, rows + 34'000, 1, 3};
    std::vector<float> averages(ids.size() * columns), read(averages), trained(averages);
    table.averages(ids, averages);
    table.rows(ids, trained);
    CHECK_FALSE(same_bits(averages, trained));
    auto const refused = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    std::string const sentence = ": the average is in the place of the weights; expected restore() first";
    {
        auto const applied = table.apply_average();
        table.rows(ids, read);
        CHECK(same_bits(read, averages));
        CHECK(refused([&] { train(table, 3, 4); }) == "update" + sentence);
        CHECK(refused([&] { table.flush(); }) == "flush" + sentence);
        CHECK(refused([&] { table.memory(); }) == "memory" + sentence);
        CHECK(refused([&] { table.memory(0); }) == "memory" + sentence);
        CHECK(refused([&] { table.reset(ids); }) == "reset" + sentence);
        CHECK(refused([&] { table.grow(rows + 40'000); }) == "grow" + sentence);
        CHECK(refused([&] { table.averages(ids, read); }) == "averages" + sentence);
        CHECK(refused([&] { table.restore(plain.progress()); }) == "restore" + sentence);
        CHECK(refused([&] { static_cast<void>(table.apply_average()); }) == "apply_average" + sentence);
        CHECK(table.clock().step == 100);
        CHECK(std::ranges::equal(table.values().subspan(0, columns), std::span(averages).subspan(columns, columns)));
    }
    try {
        auto const applied = table.apply_average();
        throw std::runtime_error("in between");
    } catch (std::runtime_error const&) {
    }
    CHECK(refused([&] { table.restore(); }) ==
          "restore: no average is in the place of the weights; expected apply_average() first");
    table.apply_average().dismiss();
    auto copied = table; // with its averages in place, of one segment
    copied.restore();
    table.restore();
    for (auto* const of : {&table, &plain, &copied}) train(*of, 100, 200);
    CHECK(difference(held(table), held(plain)) == "");
    CHECK(difference(held(copied), held(plain)) == "");
}

TEST_CASE("averages of rows go on from a checkpoint bit for bit", "[rows][averages]") {
    auto const resumes = [](auto const& rule, auto catch_up) {
        auto const optimizer = gs::make_updater<float>(rule, gs::decoupled{0.01}, gs::constant{0.05});
        gs::table early{optimizer, rows, width, catch_up, {.initial = 0.5, .max_history = 32}}, late = early;
        auto const step = [](auto& table, std::int64_t t) {
            auto const ids = named(t);
            table.update(ids, numbers<float>(ids.size() * width, static_cast<std::uint32_t>(t)));
        };
        for (std::int64_t t = 0; t < 77; ++t) step(early, t);
        held(early).put_into(late);
        for (std::int64_t t = 77; t < 200; ++t) {
            step(early, t);
            step(late, t);
        }
        CHECK(difference(held(early), held(late)) == "");
        for (std::int64_t r = 0; r < std::int64_t(rows); ++r) CHECK(same_bits(early.average(r), late.average(r)));
    };
    resumes(gs::averaged{gs::rmsprop{}, growing}, gs::exact{});
    resumes(gs::averaged{gs::adam{}, gs::polyak{10}}, gs::replay{5});
}

TEST_CASE("an infinite weight makes infinite averages, after a fold too", "[rows][averages]") {
    float const inf = std::numeric_limits<float>::infinity();
    auto const optimizer = gs::make_updater<float>(gs::averaged{gs::adagrad{}, wide}, gs::constant{0.1});
    gs::table table{optimizer, 2, 2, gs::exact{}, {.initial = std::vector<float>{1, inf, 2, -inf}}};
    std::vector<std::int32_t> const none;
    for (std::int64_t t = 0; t < 16'500; ++t) table.update(none, std::vector<float>{});
    auto const average = table.average(0);
    CHECK(average[0] == 1);
    CHECK(average[1] == inf);
    CHECK(table.average(1)[1] == -inf);
    table.flush();
    CHECK(table.state<"sum_1">()[1] == inf);
    CHECK(table.state<"sum_2">()[1] == inf);
    CHECK(table.state<"sum_3">()[1] == 0);
    CHECK(table.state<"sum_2">()[2] == 2 * 16'384);
}

TEST_CASE("options that averages of rows cannot have are refused", "[rows][averages]") {
    auto const optimizer = gs::make_updater<float>(gs::averaged{gs::adagrad{}, gs::ema{}}, gs::constant{0.1});
    CHECK(refusal<gs::value_error>([&] {
              gs::table{optimizer, 1, 1, gs::exact{}, {.row_steps = true}};
          }) == "table_options.row_steps: true is given with an average, which counts the steps of the table; expected "
                "false, or touch_only with ema");
    gs::table touched{optimizer, 2, 1, gs::touch_only{}, {.initial = 1.0, .row_steps = true}};
    std::vector<std::int32_t> const one{1};
    for (int t = 0; t < 3; ++t) touched.update(one, std::vector<float>{1});
    CHECK(touched.average(0)[0] == 1);
    CHECK(touched.average(1)[0] == touched.state<"average">()[1]);
}
