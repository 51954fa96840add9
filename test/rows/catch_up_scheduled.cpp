// Exact catch-up where hyperparameters follow schedules, against a dense sweep in long double that
// has the numbers of each step; replay, against a dense run of the library.
#include <cmath>
#include <limits>

#include <rows/catch_up.hpp>

namespace {

using dense::rule;

dense::script const many_gaps{.gaps = {1, 2, 3, 10, 1000, 1999}, .flush_at = 1234};

gs::polynomial const rising{.rate = 0.5, .steps = 1500, .end = 0.95};
gs::cosine const falling{.rate = 0.5, .steps = 1800, .end = 0.01};
dense::real at(auto const& schedule, std::size_t t) {
    return schedule(gs::clock{.step = static_cast<std::int64_t>(t)});
}

template <class Rule, class Regularizer, class Numbers>
void check_exact(Rule const& of, Regularizer const& regularizer, Numbers const& numbers) {
    auto const optimizer = gs::make_updater<double>(of, regularizer, gs::external{}, gs::serial_backend{});
    dense::script s = many_gaps;
    s.numbers = numbers;
    dense::follow_schedules(optimizer, numbers(0), s, 2001);
}

auto const moving_rate = gs::scheduled{gs::decoupled{}, gs::moving<"rate">(falling)};

} // namespace

TEST_CASE("exact is the dense sweep: sgd with a decay that follows a schedule", "[catch_up]") {
    check_exact(gs::sgd{}, moving_rate, [](std::size_t t) {
        return dense::settings{.rule = rule::sgd, .penalties = {.decoupled = at(falling, t)}};
    });
    check_exact(gs::sgd{}, gs::scheduled{gs::l2{}, gs::moving<"rate">(falling)},
                [](std::size_t t) { return dense::settings{.rule = rule::sgd, .penalties = {.l2 = at(falling, t)}}; });
}
TEST_CASE("exact is the dense sweep: a penalty among others that follows a schedule", "[catch_up]") {
    gs::scheduled const penalty{gs::all_of{gs::clip_value{0.5}, gs::proximal{gs::elastic_net{.l1 = 0.002, .l2 = 0}}},
                                gs::moving<"regularizers[1].penalty.l2">(falling)};
    check_exact(gs::adagrad{.initial_accumulator = 0.1}, penalty, [](std::size_t t) {
        return dense::settings{.rule = rule::adagrad,
                               .penalties = {.clip = 0.5, .prox_l1 = 0.002, .prox_l2 = at(falling, t)},
                               .initial = 0.1};
    });
}
TEST_CASE("exact is the dense sweep: a state whose decay follows a schedule", "[catch_up]") {
    check_exact(gs::scheduled{gs::decayed_adagrad{.epsilon = 1e-10}, gs::moving<"rho">(rising)}, moving_rate,
                [](std::size_t t) {
                    return dense::settings{
                        .rule = rule::decayed_adagrad, .penalties = {.decoupled = at(falling, t)}, .mu = at(rising, t)};
                });
}
TEST_CASE("exact is the dense sweep: momentum and nesterov that follow a schedule", "[catch_up]") {
    auto const numbers_of = [](rule of) {
        return [of](std::size_t t) {
            return dense::settings{
                .rule = of, .penalties = {.l2 = at(falling, t)}, .mu = at(rising, t), .largest_mu = 0.95};
        };
    };
    gs::scheduled const l2{gs::l2{}, gs::moving<"rate">(falling)};
    check_exact(gs::scheduled{gs::momentum{}, gs::moving<"mu">(rising)}, l2, numbers_of(rule::momentum));
    check_exact(gs::scheduled{gs::nesterov{}, gs::moving<"mu">(rising)}, l2, numbers_of(rule::nesterov));
}

namespace {

constexpr std::size_t rows = 5, width = 3, steps = 240;

// Row k takes a gradient on every (k * k + 1)-th step.
void train(auto& table, std::size_t first, std::size_t last, bool dense_steps) {
    using storage = typename std::remove_cvref_t<decltype(table)>::storage;
    for (std::size_t t = first; t < last; ++t) {
        std::vector<std::int64_t> ids;
        std::vector<storage> gradients;
        for (std::size_t k = 0; k < rows; ++k) {
            bool const active = t % (k * k * 7 + 1) == 0;
            if (!active && !dense_steps) continue;
            ids.push_back(static_cast<std::int64_t>(k));
            for (std::size_t i = 0; i < width; ++i)
                gradients.push_back(active ? static_cast<storage>(dense::gradient(t, k, i)) : storage(0));
        }
        table.update(ids, gradients, {.samples = static_cast<std::int64_t>(t % 3)});
    }
}
template <class Updater, class CatchUp> auto table_of(Updater const& optimizer, CatchUp catch_up) {
    return gs::table{optimizer, rows, width, catch_up, {.initial = gs::uniform{-1, 1, 5}}};
}

// The largest difference of a weight to a table whose rows take every step.
template <class Updater, class CatchUp> double difference(Updater const& optimizer, CatchUp catch_up) {
    auto lazy = table_of(optimizer, catch_up);
    auto all = table_of(optimizer, gs::touch_only{});
    train(lazy, 0, steps, false);
    train(all, 0, steps, true);
    double largest = 0;
    for (std::size_t i = 0; i < rows * width; ++i)
        largest = std::max(largest, std::abs(lazy.values()[i] - all.values()[i]));
    return largest;
}
// Saves in the middle of a run, with pending steps, and continues. Whether it is then the
// uninterrupted run, bit for bit.
template <class Updater, class CatchUp> bool resumes(Updater const& optimizer, CatchUp catch_up) {
    auto whole = table_of(optimizer, catch_up), part = table_of(optimizer, catch_up);
    train(whole, 0, steps, false);
    train(part, 0, steps / 2, false);
    auto resumed = table_of(optimizer, catch_up);
    auto const from = part.memory(), to = resumed.memory();
    std::copy(from.values.begin(), from.values.end(), to.values.begin());
    for (std::size_t i = 0; i != Updater::slots; ++i)
        std::copy(from.state[i].begin(), from.state[i].end(), to.state[i].begin());
    std::copy(from.stamps.begin(), from.stamps.end(), to.stamps.begin());
    resumed.restore(part.progress());
    train(resumed, steps / 2, steps, false);
    auto const a = whole.values(), b = resumed.values();
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

gs::constant const lr{0.05};
gs::serial_backend const serial;
// Follows the samples of the clock, so that a checkpoint cannot compute it from the number of the
// step.
auto const by_samples = gs::by_samples{gs::polynomial{.rate = 0.5, .steps = 200, .end = 0.9}};
auto const sometimes_zero = [](gs::clock now) { return now.step % 40 == 7 ? 0 : 0.75; };
auto const with_average = gs::averaged{gs::decayed_adagrad{}, gs::ema{}};

} // namespace

// A gap is at most 113 steps here, each of whose roundings moves a weight below 4 by at most 8
// units of 2^-53 of it, which a contraction passes on: 240 steps stay below 1e-12.
constexpr double tolerance = 1e-12;

TEST_CASE("catching up by the numbers of each step is the dense run", "[catch_up]") {
    gs::scheduled const adam{gs::adam{}, gs::moving<"beta1">(by_samples), gs::moving<"epsilon">(gs::constant{1e-3})};
    gs::scheduled const decay{gs::decoupled{}, gs::moving<"rate">(by_samples)};
    CHECK(difference(gs::make_updater<double>(adam, decay, lr, serial), gs::replay{1000}) < tolerance);
    gs::scheduled const averaged_adam{gs::averaged{gs::adam{.epsilon = 1e-3}, gs::ema{}},
                                      gs::moving<"rule.beta1">(by_samples), gs::moving<"average.decay">(by_samples)};
    CHECK(difference(gs::make_updater<double>(averaged_adam, decay, lr, serial), gs::replay{1000}) < tolerance);
    gs::scheduled const row_wise{gs::rowwise_adam{.epsilon = 1e-3}, gs::moving<"beta2">(by_samples)};
    CHECK(difference(gs::make_updater<double>(row_wise, lr, serial), gs::replay{1000}) < tolerance);
    gs::scheduled const zeros{gs::decayed_adagrad{.epsilon = 1e-3}, gs::moving<"rho">(sometimes_zero)};
    CHECK(difference(gs::make_updater<double>(zeros, decay, lr, serial), gs::exact{}) < tolerance);
    gs::scheduled const averaged{with_average, gs::moving<"rule.rho">(by_samples),
                                 gs::moving<"average.decay">(by_samples)};
    CHECK(difference(gs::make_updater<double>(averaged, decay, lr, serial), gs::exact{}) < tolerance);
}

TEST_CASE("a table whose numbers follow schedules resumes bit for bit", "[catch_up]") {
    gs::scheduled const decay{gs::decoupled{}, gs::moving<"rate">(by_samples)};
    gs::scheduled const adam{gs::adam{}, gs::moving<"beta1">(by_samples)};
    CHECK(resumes(gs::make_updater<float>(adam, decay, lr, serial), gs::replay{1000}));
    CHECK(resumes(gs::make_updater<float>(gs::adam{}, decay, lr, serial), gs::replay{1000}));
    CHECK(resumes(
        gs::make_updater<float>(gs::scheduled{gs::decayed_adagrad{}, gs::moving<"rho">(by_samples)}, decay, lr, serial),
        gs::exact{}));
    CHECK(
        resumes(gs::make_updater<float>(gs::scheduled{gs::momentum{}, gs::moving<"mu">(by_samples)}, decay, lr, serial),
                gs::exact{}));
    CHECK(resumes(gs::make_updater<float>(gs::scheduled{with_average, gs::moving<"rule.rho">(by_samples),
                                                        gs::moving<"average.decay">(by_samples)},
                                          decay, lr, serial),
                  gs::exact{}));
}

TEST_CASE("rows that join with all steps have the decay of each step", "[catch_up]") {
    gs::scheduled const rho{gs::rmsprop{.initial_accumulator = 0.5}, gs::moving<"rho">(by_samples)};
    auto const optimizer = gs::make_updater<double>(rho, gs::decoupled{0.1}, lr, serial);
    gs::table grown{optimizer, rows, width, gs::exact{}, {.initial = gs::uniform{-1, 1, 5}, .max_history = 16}};
    gs::table whole{optimizer, rows + 1, width, gs::exact{}, {.initial = gs::uniform{-1, 1, 5}}};
    train(grown, 0, 20, false);
    train(whole, 0, 20, false);
    grown.grow(rows + 1, gs::new_rows::since_the_start);
    CHECK(grown.row(rows) == whole.row(rows));
    grown.flush();
    whole.flush();
    CHECK(grown.memory().state[0][rows * width] == whole.memory().state[0][rows * width]);
    CHECK(whole.memory().state[0][rows * width] > 0);
}

TEST_CASE("rows with steps of their own have the numbers of the table's step", "[catch_up]") {
    gs::table_options const options{.initial = gs::uniform{-1, 1, 5}, .row_steps = true};
    auto const falling_beta = [](gs::clock now) { return now.step < 3 ? 0.75 : 0.5; };
    gs::scheduled const adam{gs::adam{}, gs::moving<"beta1">(falling_beta)};
    gs::table moving{gs::make_updater<float>(adam, lr, serial), 2, width, gs::touch_only{}, options};
    gs::table plain{gs::make_updater<float>(gs::adam{.beta1 = 0.75}, lr, serial), 2, width, gs::touch_only{}, options};
    std::vector<std::int64_t> const first{0}, second{1};
    std::vector<float> const g{0.5f, -1, 2};
    for (int t = 0; t < 3; ++t) {
        moving.update(first, g);
        plain.update(first, g);
    }
    CHECK(moving.row(0) == plain.row(0));
    // Row 1 takes its first step at the table's fourth, with the beta1 of the fourth: 1 - beta1^1
    // cancels in it.
    moving.update(second, g);
    plain.update(second, g);
    auto const a = moving.row(1), b = plain.row(1);
    for (std::size_t i = 0; i != width; ++i) CHECK(std::abs(a[i] - b[i]) <= 0x1p-22f);
    auto const memory = moving.memory();
    for (std::size_t i = 0; i != width; ++i) CHECK(memory.state[0][width + i] == 0.5f * g[i]);
}

TEST_CASE("a checkpoint with numbers that no schedule gives is refused", "[catch_up]") {
    gs::scheduled const adam{gs::adam{}, gs::moving<"beta1">(by_samples)};
    auto const optimizer = gs::make_updater<float>(adam, lr, serial);
    gs::row_updater from{optimizer, 2, 1, gs::replay{100}};
    std::vector<float> w{1, 1}, m(2), v(2), g{0.5f};
    std::vector<std::uint32_t> stamps(2);
    auto const memory = from.memory(w, m, v, stamps);
    from.initialize(memory);
    std::vector<std::int64_t> const first{0};
    for (int t = 0; t < 5; ++t) from.update(memory, first, g);
    auto at = from.progress();
    CHECK(from.history_numbers == 1 + 1 + 3 * 2);
    REQUIRE(at.history.size() == 6 * from.history_numbers); // 5 steps, and the sums before them
    at.history[from.history_numbers + 1] = 1.5;             // beta1 of the first step
    CHECK(refusal<gs::value_error>([&] { from.restore(memory, at); }) ==
          "adam.beta1: 1.5 is out of range; expected [0, 1)");
    at = from.progress();
    at.history[from.history_numbers + 2] = 0.25; // a sum of logarithms of factors <= 1
    CHECK(refusal<gs::value_error>([&] { from.restore(memory, at); }) ==
          "row_progress.history: has a sum of a decay's logarithms that is 0.25; expected <= 0, and a count of zeros");
    at.history[from.history_numbers + 2] = std::numeric_limits<double>::quiet_NaN();
    CHECK(refusal<gs::value_error>([&] { from.restore(memory, at); }).starts_with("row_progress.history: "));
    from.restore(memory, from.progress());
}
