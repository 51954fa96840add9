// Long runs of catch-up: rounding, growth, checkpoints and numbers that are not finite. Reviews
// found each of these defects.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <support/catch.hpp>
#include <support/refusal.hpp>
#include <support/rows.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;
using real = long double;
constexpr float infinite = std::numeric_limits<float>::infinity();

template <class Updater, class CatchUp = gs::exact>
auto table_of(Updater const& optimizer, std::size_t rows, double initial, std::int64_t max_history = 0,
              CatchUp catch_up = {}) {
    return gs::table{optimizer, rows, 1, catch_up, {.initial = initial, .max_history = max_history}};
}
// `steps` steps of which every row is away.
template <class Table> void leave(Table& table, std::int64_t steps, gs::step_options const& options = {}) {
    using storage = typename Table::storage;
    for (std::int64_t t = 0; t < steps; ++t) table.update(ids64{}, std::span<storage const>{}, options);
}
// A sum of a million changes, each a ten-millionth of it: what long double would round off is kept
// beside it.
struct long_sum {
    real high = 0, low = 0;
    void add(real x) {
        real const sum = high + x, added = sum - high;
        low += (high - (sum - added)) + (x - added);
        high = sum;
    }
    real value() const { return high + low; }
};
template <class T> double number(T x) { return static_cast<double>(gs::detail::widen(x)); }

} // namespace

// The rolling sweep rounded every row to storage once in 2^12 steps, which lost a decay of 4e-4:
// 1.000 in a table of 100 rows, 0.905 in one of a million.
TEMPLATE_TEST_CASE("a row of 16 bits decays however few rows its table has", "[history]", gs::bfloat16, gs::float16) {
    constexpr std::int64_t steps = 1'000'000;
    real const q = std::exp(steps * std::log1p(-1e-7L));
    // One piece of the sweep, in half the default history, and one of the reader: each rounds to
    // storage once, by at most 2^-9 of the weight.
    real const bound = 2 * 0x1p-9L + 1e-6L;
    auto const check = [&](auto rule) {
        auto const optimizer =
            gs::make_updater<TestType>(rule, gs::decoupled{1e-3}, gs::constant{1e-4}, gs::serial_backend{});
        for (std::size_t const rows : {1u, 100u, 5000u}) {
            auto table = table_of(optimizer, rows, 1);
            leave(table, steps);
            for (std::size_t const row : {std::size_t{0}, rows / 2, rows - 1}) {
                CAPTURE(rows, row);
                CHECK(std::abs(number(table.row(static_cast<std::int64_t>(row))[0]) - q) <= bound * q);
            }
        }
    };
    check(gs::sgd{});
    if constexpr (std::is_same_v<TestType, gs::bfloat16>) check(gs::momentum{});
}

// The history's length followed the rows at construction and was no part of a checkpoint: of a
// table that had grown from 1000 to 100 000 rows it was refused at step 6000, and taken at step
// 3000 with 436 weights off; stale_rows() ran backwards.
TEST_CASE("a table that grew goes through a checkpoint", "[history]") {
    auto const check = [](auto const& optimizer, auto catch_up, std::int64_t saved_at) {
        auto const make = [&](std::size_t rows) {
            return gs::table{optimizer, rows, 2, catch_up, {.initial = gs::uniform{-1, 1, 3}}};
        };
        auto const step = [](auto& table, std::int64_t t) {
            auto const rows = static_cast<std::int64_t>(table.num_rows());
            ids64 const ids{t * 7919 % rows, t * t % 997, t * 31 % rows};
            table.update(ids, gradient_numbers<float>(6, t));
        };
        auto table = make(1000);
        for (std::int64_t t = 1; t <= 500; ++t) step(table, t);
        table.grow(100'000);
        for (std::int64_t t = 501; t <= saved_at; ++t) step(table, t);

        auto restored = make(100'000);
        held const saved(table);
        saved.put_into(restored);
        CHECK(difference(held(restored), saved) == "");
        for (std::int64_t t = saved_at + 1; t <= saved_at + 6000; ++t) {
            auto const [first, last] = restored.stale_rows();
            REQUIRE(first <= last);
            REQUIRE(last <= restored.num_rows());
            REQUIRE(restored.stale_rows() == table.stale_rows());
            step(table, t);
            step(restored, t);
        }
        CHECK(difference(held(restored), held(table)) == "");
        CHECK(difference(restored.values(), table.values()) == "");

        auto smaller = make(1000);
        CHECK(refusal<gs::size_error>([&] { smaller.restore(saved.progress); }) ==
              "row_progress.num_rows: 100000 is out of range; expected 1000, the rows of the table; grow it first");
    };
    auto const shrinking =
        gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::elastic_net{1e-3, 1e-2}},
                                gs::exponential{.rate = 0.1, .decay = 0.5, .steps = 4000}, gs::serial_backend{});
    auto const moving =
        gs::make_updater<float>(gs::momentum{}, gs::decoupled{1e-2}, gs::constant{0.01}, gs::serial_backend{});
    auto const repeating =
        gs::make_updater<float>(gs::adam{}, gs::decoupled{1e-2}, gs::constant{0.01}, gs::serial_backend{});
    for (std::int64_t const saved_at : {3000, 6000}) {
        CAPTURE(saved_at);
        check(shrinking, gs::exact{}, saved_at);
        check(moving, gs::exact{}, saved_at);
        check(repeating, gs::replay{20}, saved_at);
    }
}

TEST_CASE("a checkpoint of another moment, size or policy is refused by a sentence", "[history]") {
    auto const updater = [](auto rule, auto regularizer) {
        return gs::make_updater<double>(rule, regularizer, gs::constant{0.1}, gs::serial_backend{});
    };
    auto const make = [](auto const& optimizer, auto catch_up) {
        gs::table table{optimizer, 5, 1, catch_up, {.initial = 1, .max_history = 8}};
        leave(table, 20);
        return table;
    };
    auto exact = make(updater(gs::sgd{}, gs::decoupled{0.5}), gs::exact{});
    auto linear = make(updater(gs::momentum{}, gs::decoupled{0.5}), gs::exact{});
    auto stands = make(updater(gs::sgd{}, gs::none{}), gs::exact{});
    auto const refuses = [](auto& table, gs::row_progress const& from) {
        held const before(table);
        std::string const text = refusal<gs::value_error>([&] { table.restore(from); });
        CHECK(difference(held(table), before) == "");
        return text;
    };
    CHECK(refuses(exact, linear.progress()) ==
          "row_progress.kind: products is not allowed; expected factors, which the catch-up "
          "policy keeps with this rule and regularizer");
    CHECK(refuses(stands, exact.progress()) == "row_progress.kind: factors is not allowed; expected none, which the "
                                               "catch-up policy keeps with this rule and regularizer");
    auto bad = exact.progress();
    bad.max_history = 24;
    CHECK(refuses(exact, bad) ==
          "row_progress.max_history: 24 is out of range; expected a power of two from 4 to 2^30");
    bad = exact.progress();
    bad.lap_row = 4, bad.lap_rows = 3;
    CHECK(refuses(exact, bad) == "row_progress: lap_row = 4, lap_rows = 3; expected at most lap_rows, and at most "
                                 "num_rows = 5");

    // Stamps that no step has given yet, and steps that the history has lost, now or when the sweep
    // comes to the row.
    auto const with_stamp = [&](auto& table, std::size_t row, std::uint32_t stamp) {
        auto const progress = table.progress();
        std::uint32_t const was = std::exchange(table.memory().stamps[row], stamp);
        std::string const text = refuses(table, progress);
        table.memory().stamps[row] = was;
        table.restore(progress);
        return text;
    };
    std::string const why =
        " is out of range; expected at most 20, the low half of the step, and not older than the steps that the "
        "history keeps: the rows' memory and row_progress must be of one moment";
    for (std::uint32_t const stamp : {21u, 4'000'000'000u, 3u, 12u}) {
        CHECK(with_stamp(exact, 2, stamp) == "stamps[2]: " + std::to_string(stamp) + why);
        CHECK(with_stamp(linear, 2, stamp) == "stamps[2]: " + std::to_string(stamp) + why);
    }
    CHECK(with_stamp(stands, 2, 21) == "stamps[2]: 21" + why);

    // A table that was made with another length of history takes the length of the checkpoint.
    auto other = gs::table{updater(gs::sgd{}, gs::decoupled{0.5}), 5, 1, gs::exact{}, {.max_history = 64}};
    held(exact).put_into(other);
    leave(other, 30);
    leave(exact, 30);
    CHECK(difference(held(other), held(exact)) == "");
}

// Found: when 1e3 rows grew to 1e7, one step swept millions of rows, and every later step 2500.
TEST_CASE("a table that grew pays for a step what one of its size pays", "[history]") {
    auto const optimizer =
        gs::make_updater<float>(gs::sgd{}, gs::decoupled{1e-3}, gs::constant{0.1}, gs::serial_backend{});
    constexpr std::uint64_t rows = 4'000'000;
    auto const most_due = [&](std::int64_t max_history, std::int64_t steps) {
        auto table = table_of(optimizer, 1000, 1, max_history);
        leave(table, 3000);
        table.grow(rows);
        std::uint64_t most = 0;
        for (std::int64_t t = 0; t < steps; ++t) {
            auto const [first, last] = table.stale_rows();
            most = std::max(most, last - first);
            leave(table, 1);
        }
        return most;
    };
    CHECK(most_due(0, 3000) == (rows + 524'286) / 524'287); // a lap is half the history of 2^20 steps, less one
    CHECK(most_due(4096, 3000) == (rows + 2046) / 2047);    // as many as were asked for
}

TEST_CASE("a table that grows again and again keeps every row young and exact", "[history]") {
    auto const optimizer = gs::make_updater<double>(
        gs::sgd{}, gs::decoupled{0.01}, gs::exponential{.rate = 1, .decay = 0.5, .steps = 500}, gs::serial_backend{});
    for (std::int64_t const max_history : {4, 16, 64}) {
        auto table = table_of(optimizer, 3, 1, max_history);
        std::vector<real> right(3, 1);
        std::uint64_t state = 7;
        for (int t = 0; t < 3000; ++t) {
            leave(table, 1);
            real const a = 1 - 0.01L * std::pow(0.5L, t / 500.0L);
            for (real& w : right) w *= a;
            std::uint32_t const now = static_cast<std::uint32_t>(t + 1);
            for (std::uint32_t const stamp : table.memory().stamps) REQUIRE(now - stamp < max_history);
            state = state * 6364136223846793005u + 1442695040888963407u;
            if (state >> 58 != 0 || right.size() > 200) continue;
            right.resize(right.size() + (state >> 50) % 40, 1);
            table.grow(right.size());
        }
        // The rounding of each catch-up, of its factor and of the logarithms; at most one catch-up
        // in two steps.
        for (std::size_t k = 0; k < right.size(); ++k)
            REQUIRE(std::abs(table.row(static_cast<std::int64_t>(k))[0] - right[k]) <= 3000 * 4 * 0x1p-53L * right[k]);
    }
}

// sgd with a coupled l2 went by products of matrices that were rounded beside 1: 3e-11 off after a
// million steps.
TEST_CASE("sgd with a coupled l2 is exact to the last places over a million steps", "[history]") {
    constexpr std::int64_t steps = 1'000'000;
    gs::cosine const schedule{.rate = 0.01, .steps = steps, .end = 1e-4};
    auto const check = [&](auto const& regularizer, real l2, real decay, real prox) {
        auto const optimizer = gs::make_updater<double>(gs::sgd{}, regularizer, schedule, gs::serial_backend{});
        auto table = table_of(optimizer, 3, 0.75, 1 << 20);
        leave(table, steps);
        long_sum log;
        for (std::int64_t t = 0; t < steps; ++t) {
            real const rate = schedule(gs::clock{.step = t});
            log.add(std::log1p(-rate * (l2 + decay)) - std::log1p(rate * prox));
        }
        real const right = 0.75L * std::exp(log.value());
        // dense_oracle.hpp: 5 |L| + 4 for the factor, and its product with the weight.
        real const bound = (5 * std::abs(log.value()) + 5) * 0x1p-53L * right;
        CHECK(std::abs(table.row(1)[0] - right) <= bound);
    };
    check(gs::l2{1e-5}, 1e-5L, 0, 0);
    check(gs::all_of{gs::l2{1e-5}, gs::decoupled{2e-5}, gs::proximal{gs::l2{1e-5}}}, 1e-5L, 2e-5L, 1e-5L);
    check(gs::proximal{gs::l2{1e-5}}, 0, 0, 1e-5L);
}

// The running threshold was a plain sum: after many steps a short gap had its rounding errors.
TEST_CASE("a short gap late in a run keeps the digits of its threshold", "[history]") {
    constexpr std::int64_t steps = 1'000'000;
    for (double const l2 : {0.0, 1e-6}) {
        CAPTURE(l2);
        auto const optimizer = gs::make_updater<double>(gs::sgd{}, gs::proximal{gs::elastic_net{1e-3, l2}},
                                                        gs::constant{0.3}, gs::serial_backend{});
        auto table = table_of(optimizer, 2, 0, 1 << 20);
        leave(table, steps);
        table.update(ids64{1}, std::vector<double>{-1 / 0.3});
        double const start = table.row(1)[0];
        leave(table, 10);
        real right = start;
        for (int t = 0; t < 10; ++t) right = (right - real(0.3) * real(1e-3)) / (1 + real(0.3) * real(l2));
        // c = 3e-3 is off by some of its own last places, and by last places of (q - 1) D0, 3e-6
        // * 300. Then the product, the difference and q round.
        CHECK(std::abs(table.row(1)[0] - right) <= (4 * 1.0L + 10 * (3e-3L + 1e-3L)) * 0x1p-53L);
    }
}

// The matrices of a step were made of a decay that was rounded beside 1.
TEST_CASE("a linear rule is exact to the last places over a million steps", "[history]") {
    constexpr std::int64_t steps = 1'000'000;
    constexpr double rate = 0.01, mu = 0.9;
    auto const check = [&](auto rule, auto const& regularizer, real l2, real decay, real prox, bool nesterov) {
        auto const optimizer = gs::make_updater<double>(rule, regularizer, gs::constant{rate}, gs::serial_backend{});
        auto table = table_of(optimizer, 3, 0.75, 1 << 20);
        leave(table, steps);
        long_sum weight{.high = 0.75L};
        real m = 0;
        for (std::int64_t t = 0; t < steps; ++t) {
            real const g = l2 * weight.value();
            weight.add(-rate * decay * weight.value());
            m = real(mu) * m + g;
            weight.add(-rate * (nesterov ? g + real(mu) * m : m));
            weight.add(-weight.value() * (rate * prox / (1 + rate * prox)));
        }
        real const w = weight.value();
        // A product of 2^k steps, E + F + E F, is off by the errors of its parts and 7 u of their
        // sizes, which are at most 2 |q - 1| with the momentum that remains; 20 levels, and 6 u of
        // the matrix of a step. Then a rounding to M and two products.
        real const q = w / 0.75L, bound = ((7 * 20 + 6) * 2 * (1 - q) + 4) * 0x1p-53L * 0.75L;
        CHECK(std::abs(table.row(1)[0] - w) <= bound);
        CHECK(bound < 3e-14L);
    };
    check(gs::momentum{.mu = mu}, gs::decoupled{1e-5}, 0, 1e-5L, 0, false);
    check(gs::momentum{.mu = mu}, gs::l2{1e-6}, 1e-6L, 0, 0, false);
    check(gs::nesterov{.mu = mu}, gs::all_of{gs::l2{1e-6}, gs::decoupled{1e-6}, gs::proximal{gs::l2{1e-6}}}, 1e-6L,
          1e-6L, 1e-6L, true);
}

// 0 times infinite was NaN, of which a maximum made 0.
TEST_CASE("what is not finite catches up to what a dense run has", "[history]") {
    auto const alike = [](float a, float b) {
        return std::isnan(a) ? std::isnan(b) : std::isinf(a) ? a == b : std::isfinite(b);
    };
    auto const check = [&](auto const& rule, auto const& regularizer, auto catch_up, std::int64_t steps) {
        auto const optimizer = gs::make_updater<float>(rule, regularizer, gs::constant{0.1});
        using updater = std::remove_const_t<decltype(optimizer)>;
        std::vector<float> const numbers{infinite, -infinite, std::numeric_limits<float>::quiet_NaN(), 1.5f, -2.0f};
        std::size_t const n = numbers.size();
        // Every number as a weight, and, where the rule has a slot, in it beside a weight of 1.
        std::size_t const rows = updater::slots != 0 ? 2 : 1;
        gs::table table{optimizer, rows, n, catch_up, {.initial = 1, .max_history = 1 << 12}};
        auto const memory = table.memory();
        std::copy(numbers.begin(), numbers.end(), memory.values.begin());
        bool constexpr slot = updater::slots != 0 && !updater::is_row_slot(0);
        if constexpr (slot)
            for (std::size_t i = 0; i < n; ++i)
                memory.state[0][n + i] =
                    std::isnan(numbers[i]) ? 1 : std::abs(numbers[i]); // a NaN: at the next gradient
        held const start(table);
        leave(table, steps);
        table.flush();

        auto values = start.values;
        auto state = start.state;
        auto run = optimizer;
        std::vector<float> const zeros(values.size());
        for (std::int64_t t = 0; t < steps; ++t)
            std::apply([&](auto&... slots) { run.next_step()(values, zeros, slots...); }, state);
        for (std::size_t i = 0; i < values.size(); ++i) {
            CAPTURE(optimizer.description(), steps, i, values[i], memory.values[i]);
            CHECK(alike(values[i], memory.values[i]));
            if constexpr (slot) CHECK(alike(state[0][i], memory.state[0][i]));
        }
    };
    for (std::int64_t const steps : {1, 2, 3, 50, 3000}) {
        gs::proximal const elastic_net{gs::elastic_net{.l1 = 0.1, .l2 = 3}};
        check(gs::sgd{}, gs::decoupled{3}, gs::exact{}, steps);
        check(gs::sgd{}, elastic_net, gs::exact{}, steps);
        check(gs::sgd{}, gs::l2{3}, gs::exact{}, steps);
        check(gs::sgd{}, gs::all_of{gs::l2{1}, gs::decoupled{3}}, gs::exact{}, steps);
        check(gs::adagrad{.initial_accumulator = 0.1}, elastic_net, gs::exact{}, steps);
        check(gs::rmsprop{}, gs::decoupled{3}, gs::exact{}, steps);
        check(gs::momentum{}, gs::none{}, gs::exact{}, steps);
        check(gs::momentum{}, gs::l2{0.5}, gs::exact{}, steps);
        check(gs::momentum{}, gs::decoupled{3}, gs::exact{}, steps);
        check(gs::nesterov{}, gs::none{}, gs::exact{}, steps);
        check(gs::nesterov{}, gs::all_of{gs::l2{0.5}, gs::proximal{gs::l2{1}}}, gs::exact{}, steps);
    }
}

// The factor that has become too small was held at the smallest normal number, with nothing
// subtracted: 1.175 was left.
TEST_CASE("a weight under a coupled l2 vanishes, however large it was", "[history]") {
    auto const check = [](auto large, std::int64_t steps) {
        using element = decltype(large);
        auto const optimizer = gs::make_updater<element>(gs::sgd{}, gs::l2{0.5}, gs::constant{1}, gs::serial_backend{});
        for (element const start : {large, element(-large), element(1)}) {
            auto table = table_of(optimizer, 2, start);
            leave(table, steps);
            CHECK(table.row(1)[0] == 0);
            CHECK(std::signbit(table.row(1)[0]) == std::signbit(start));
        }
    };
    check(1e38f, 400); // 4e-83
    check(1e300, 2500);
}

// One of its factors is 0, the other only becomes too small: infinite times that was NaN, and so
// was the weight after it.
TEST_CASE("an infinite slot stays so beside one that every step takes to 0", "[history]") {
    auto const optimizer = gs::make_updater<float>(gs::adam{.beta1 = 0, .beta2 = 0.9}, gs::constant{0.1});
    gs::table table{optimizer, 2, 1, gs::replay{10}, {.initial = 1}};
    auto dense_run = optimizer;
    std::vector<float> w(1, 1), m(1), v(1);
    table.update(ids64{0}, std::vector{1e20f});
    dense_run.next_step()(w, std::vector{1e20f}, m, v);
    REQUIRE(v[0] == infinite);
    leave(table, 1200); // 0.9^1200 is 1e-55
    for (int t = 0; t < 1200; ++t) dense_run.next_step()(w, std::vector{0.0f}, m, v);
    table.update(ids64{0}, std::vector{1.0f});
    dense_run.next_step()(w, std::vector{1.0f}, m, v);
    CHECK(table.state<"v">()[0] == infinite);
    CHECK(table.state<"m">()[0] == m[0]);
    CHECK(table.row(0)[0] == w[0]);
    CHECK(w[0] == 1);
}

TEST_CASE("a coupled l2 that turns a weight's sign has no exact catch-up", "[history]") {
    auto const optimizer = gs::make_updater<double>(gs::sgd{}, gs::l2{0.5}, gs::external{}, gs::serial_backend{});
    auto table = table_of(optimizer, 3, 1);
    leave(table, 3, {.rate = 1.0});
    held const before(table);
    for (double const rate : {2.0, 3.0})
        CHECK(refusal<gs::value_error>([&] { table.update(ids64{1}, std::vector<double>{1}, {.rate = rate}); }) ==
              "exact catch-up: a step without gradient at the learning rate " + gs::detail::text(rate) +
                  " multiplies the weight by " + gs::detail::text(1 - rate / 2) +
                  "; expected > 0; a coupled l2 needs lr * l2 < 1");
    CHECK(difference(held(table), before) == "");
    leave(table, 1, {.rate = 1.0});
    CHECK(table.row(0)[0] == 0.0625);
}

TEST_CASE("rows of a row_updater that grew begin as of now, or have caught up since the start", "[history]") {
    auto const check = [](auto const& optimizer, auto catch_up, std::int64_t steps) {
        constexpr bool has_slot = std::remove_cvref_t<decltype(optimizer)>::slots == 1;
        gs::row_updater rows{optimizer, 2, 1, catch_up, {.max_history = 16}};
        std::vector<double> w(4, 0.75), state(4);
        std::vector<std::uint32_t> stamps(4);
        auto const memory = [&](std::size_t n) {
            auto const part = [&](auto& all) { return std::span(all).first(n); };
            if constexpr (has_slot) return rows.memory(part(w), part(state), part(stamps));
            else return rows.memory(part(w), part(stamps));
        };
        rows.initialize(memory(2));
        for (std::int64_t t = 0; t < steps; ++t) rows.update(memory(2), ids64{}, std::span<double const>{});
        rows.grow(3);
        rows.initialize(memory(3), 2);
        rows.grow(4);
        if (steps < 16 || !has_slot) {
            rows.initialize(memory(4), 3, gs::new_rows::since_the_start);
        } else {
            CHECK(refusal<gs::value_error>([&] { rows.initialize(memory(4), 3, gs::new_rows::since_the_start); }) ==
                  "new_rows::since_the_start: at step " + gs::detail::text(steps) +
                      " the history has only the last 15 steps; expected a longer table_options.max_history, or "
                      "new_rows::as_of_now");
            return;
        }
        std::vector<double> read(4);
        rows.read(memory(4), ids64{0, 1, 2, 3}, read);
        CHECK(read[2] == 0.75);
        CHECK(read[3] < 0.75);
        if (steps < 16) CHECK(read[3] == read[0]); // in one piece each
        CHECK(read[3] == Approx(read[1]).epsilon(1e-14).margin(0));
        CHECK(stamps[3] == static_cast<std::uint32_t>(steps));
    };
    auto const shrinking = gs::make_updater<double>(gs::sgd{}, gs::proximal{gs::elastic_net{1e-3, 1e-2}},
                                                    gs::constant{0.1}, gs::serial_backend{});
    auto const moving =
        gs::make_updater<double>(gs::momentum{}, gs::decoupled{1e-2}, gs::constant{0.1}, gs::serial_backend{});
    for (std::int64_t const steps : {5, 300}) {
        check(shrinking, gs::exact{}, steps);
        check(moving, gs::exact{}, steps);
    }
}
