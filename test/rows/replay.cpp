// replay{n}: missed steps run again, against a dense run of the library in the same arithmetic,
// which has its own oracle.
#include <array>
#include <cmath>

#include <rows/catch_up.hpp>

namespace {

constexpr std::size_t width = 3;

/// The rows as tensors of their own, which see g = 0 on the steps that do not name them.
template <class Updater> struct dense_rows {
    using real = typename Updater::traits::compute;
    struct row {
        std::vector<real> w;
        std::array<std::vector<real>, Updater::slots> state;
    };

    Updater optimizer;
    std::vector<row> rows;

    dense_rows(Updater const& from, std::vector<double> const& weights)
        : optimizer(from), rows(weights.size() / width) {
        for (std::size_t i = 0; i < weights.size(); ++i) rows[i / width].w.push_back(static_cast<real>(weights[i]));
        for (row& x : rows) {
            for (std::size_t s = 0; s < Updater::slots; ++s) x.state[s].resize(Updater::slot_size(s, width));
            std::apply([&](auto&... state) { optimizer.initialize(x.w, state...); }, x.state);
        }
    }
    void step(double rate, std::size_t named, std::vector<real> const& gradient) {
        auto const step = optimizer.next_step({.rate = rate});
        for (std::size_t k = 0; k < rows.size(); ++k) {
            std::vector<real> g = k == named ? gradient : std::vector<real>(width);
            std::apply([&](auto&... state) { step(rows[k].w, g, state...); }, rows[k].state);
        }
    }
};

// Steps of a run in which only step 0, 7 and `again` touch row 1, and row 0 is touched by all
// others.
constexpr std::size_t steps = 900, again = 600;
constexpr std::size_t named_by(std::size_t t) { return t == 0 || t == 7 || t == again ? 1 : 0; }

template <class T> std::vector<T> gradient_of(std::size_t t) {
    std::vector<T> out;
    for (std::size_t i = 0; i < width; ++i) out.push_back(static_cast<T>(dense::gradient(t, 1, i)));
    return out;
}
double rate_of(std::size_t t) {
    auto const now = gs::clock{.step = static_cast<std::int64_t>(t)};
    return gs::warmup{gs::cosine{.rate = 0.01, .steps = 1000, .end = 0.001}, 20, 1e-4}(now);
}

/// The largest difference of a weight of row 1 to the dense run, over all steps, and of the state
/// at the end.
struct differences {
    double weight = 0, relative_state = 0;
};
template <class Rule, class Regularizer> differences against_dense(Rule rule, Regularizer regularizer) {
    auto const optimizer = gs::make_updater<double>(rule, regularizer, gs::external{}, gs::serial_backend{});
    gs::table table{optimizer, 2, width, gs::replay{steps}, {.initial = gs::uniform{-1, 1, 5}}};
    dense_rows dense_run(optimizer, dense::stored_weights(table));
    differences found;
    for (std::size_t t = 0; t < steps; ++t) {
        auto const g = gradient_of<double>(t);
        dense_run.step(rate_of(t), named_by(t), g);
        table.update(std::vector{static_cast<std::int64_t>(named_by(t))}, g, {.rate = rate_of(t)});
        if (t % 50 != 9) continue;
        auto const row = table.row(1);
        for (std::size_t i = 0; i < width; ++i)
            found.weight = std::max(found.weight, std::abs(row[i] - dense_run.rows[1].w[i]));
    }
    table.flush();
    auto const memory = table.memory();
    for (std::size_t s = 0; s < memory.state.size(); ++s) {
        std::size_t const n = dense_run.rows[1].state[s].size();
        for (std::size_t i = 0; i < n; ++i) {
            double const expected = dense_run.rows[1].state[s][i], actual = memory.state[s][n + i];
            if (expected == actual) continue;
            found.relative_state = std::max(found.relative_state, std::abs(actual / expected - 1));
        }
    }
    return found;
}

// A missed step multiplies m and v by a factor and rounds; replay takes the factor's power once.
// Over the `steps` of the run m and v are relatively off by at most one rounding a step in the
// dense run, three |log factor| a step in the power (logarithm, product, exp), with |log
// factor| < 0.11, and four a touch: (1.33 steps + 12) u, which m's sums with new gradients do not
// increase where both have one sign, as the tests' gradients of step 0, 7 and 600 have not: there
// |m| stands for its terms, of which each is at most 1.
constexpr double u = std::numeric_limits<double>::epsilon() / 2;
constexpr double state_roundings = 1.33 * steps + 12;
// A bound of the sum of all moves without gradient, for gradients of at most 1: lr times an average
// of them, which `beta` and the bias correction give, over `root`(t).
template <class Root> double travel(double beta, bool is_corrected, Root const& root) {
    double sum = 0, decayed = 0;
    for (std::size_t t = 0; t < steps; ++t) {
        decayed = beta * decayed + (named_by(t) == 1 ? 1 - beta : 0);
        double const bias = is_corrected ? 1 - std::pow(beta, static_cast<double>(t + 1)) : 1;
        sum += rate_of(t) * decayed / bias / root(static_cast<double>(t + 1));
    }
    return sum;
}
// A step of adam is at most lr * (0.1 * 3 / (1 - 0.9^t)) / sqrt(0.001 g^2 / (1 - 0.999^t)) for the
// three gradients, of which each is at least 2^-6: its error relative to that is m's and half of
// v's. Summed over t: below `travel`.
double travel(double smallest_gradient, double beta = 0.9, bool is_corrected = true) {
    return travel(beta, is_corrected, [&](double n) {
        return smallest_gradient * std::sqrt(0.001 * std::pow(0.999, n) / (1 - std::pow(0.999, n)));
    });
}
double smallest_gradient() {
    double smallest = 1;
    for (std::size_t const t : {std::size_t{0}, std::size_t{7}, again})
        for (double const g : gradient_of<double>(t)) smallest = std::min(smallest, std::abs(g));
    return smallest;
}

} // namespace

TEST_CASE("replay of all missed steps is the dense run: the bits where the state is run too", "[replay]") {
    // A coupled l2 moves the state on every step, and adagrad's stands: there is nothing that
    // replay does otherwise.
    CHECK(against_dense(gs::adam{}, gs::l2{0.01}).weight == 0);
    CHECK(against_dense(gs::adam{}, gs::l2{0.01}).relative_state == 0);
    CHECK(against_dense(gs::momentum{}, gs::l2{0.01}).weight == 0);
    CHECK(against_dense(gs::adagrad{}, gs::proximal{gs::l1{0.01}}).weight == 0);
    CHECK(against_dense(gs::adagrad{}, gs::cautious_decay{0.01}).weight == 0);
    CHECK(against_dense(gs::adagrad{}, gs::clamp_weight{-0.5, 0.25}).weight == 0); // row 1 begins outside
}

TEST_CASE("replay of all missed steps is the dense run, within the roundings of the state's power", "[replay]") {
    REQUIRE(smallest_gradient() > 0);
    double const weights = 1.5 * state_roundings * u * travel(smallest_gradient()) + 2 * steps * u;
    double const state = 1.01 * 3 * state_roundings * u; // m is at least a third of its terms
    auto const check = [&](differences found) {
        CAPTURE(weights, state, found.weight, found.relative_state);
        CHECK(found.weight <= weights);
        CHECK(found.relative_state <= state);
        CHECK(found.weight > 0); // or the test compares nothing
    };
    check(against_dense(gs::adam{}, gs::decoupled{0.01}));
    check(against_dense(gs::adam{}, gs::proximal{gs::elastic_net{.l1 = 1e-4, .l2 = 0.01}}));
    check(against_dense(gs::rowwise_adam{}, gs::decoupled{0.01}));
    check(against_dense(gs::momentum{}, gs::decoupled{0.01}));
    check(against_dense(gs::adam{}, gs::cautious_decay{0.01}));
    check(against_dense(gs::momentum{}, gs::cautious_decay{0.01}));
    check(against_dense(gs::rowwise_adam{}, gs::all_of{gs::decoupled{0.01}, gs::clamp_weight{-0.6, 0.6}}));
}

TEST_CASE("replay of all missed steps is the dense run of the rules beside adam", "[replay]") {
    CHECK(against_dense(gs::laprop{}, gs::l2{0.01}).weight == 0);
    CHECK(against_dense(gs::adopt{}, gs::l2{0.01}).weight == 0);
    CHECK(against_dense(gs::ademamix{}, gs::l2{0.01}).weight == 0);
    CHECK(against_dense(gs::qhadam{}, gs::l2{0.01}).weight == 0);

    double const smallest = smallest_gradient();
    auto const check = [](differences found, double moved) {
        double const weights = 1.5 * state_roundings * u * moved + 2 * steps * u;
        CAPTURE(weights / u, found.weight / u, found.relative_state / u);
        CHECK(found.weight <= weights);
        CHECK(found.relative_state <= 1.01 * 6 * state_roundings * u); // m2 is at least a sixth of its terms
        CHECK(found.relative_state > 0);                               // or the test compares nothing
    };
    auto const one = [](double) { return 1.0; };
    // What enters m is at most 1 / sqrt(1 - beta2) < 32, since v is at least (1 - beta2) * g^2.
    check(against_dense(gs::laprop{}, gs::decoupled{0.01}), 32 * travel(0.9, true, one));
    // And here at most (t - 1)^(1/4) < 6.
    check(against_dense(gs::adopt{}, gs::decoupled{0.01}), 6 * travel(0.9, false, one));
    check(against_dense(gs::ademamix{}, gs::decoupled{0.01}), travel(smallest) + 5 * travel(smallest, 0.9999, false));
    // nu1 and 1 - nu1 are at most 1. The gradient itself is an average with beta = 0.
    check(against_dense(gs::qhadam{.beta1 = 0.9, .nu2 = 0.5}, gs::decoupled{0.01}),
          std::sqrt(2.0) * (travel(smallest) + travel(smallest, 0, false)));
}

TEST_CASE("replay of ademamix needs a slow average that falls by one factor", "[replay]") {
    auto const replayed = [](gs::ademamix rule) {
        auto const optimizer = gs::make_updater<float>(rule, gs::constant{0.1}, gs::serial_backend{});
        gs::table const table(optimizer, 1, 1, gs::replay{5});
    };
    CHECK(refusal<gs::value_error>([&] { replayed({.warmup = 20}); }) ==
          "ademamix.warmup: 20 is not allowed; expected 0 to be replayed, since beta3 changes during a warmup; or use "
          "touch_only");
    CHECK_NOTHROW(replayed({}));
    CHECK_NOTHROW(replayed({.beta1 = 0.9, .beta3 = 0.9, .warmup = 20}));
    auto const optimizer = gs::make_updater<float>(gs::ademamix{.warmup = 20}, gs::constant{0.1}, gs::serial_backend{});
    CHECK_NOTHROW(gs::table(optimizer, 1, 1, gs::touch_only{}));
}

TEST_CASE("beyond max_steps the state decays and the weight stands", "[replay]") {
    gs::adam const rule;
    auto const optimizer = gs::make_updater<double>(rule, gs::external{}, gs::serial_backend{});
    std::vector<double> const start{0.5, -1, 2}, g{1, -0.25, 0.5};
    gs::table table{optimizer, 1, width, gs::replay{5}, {.initial = start}};
    dense_rows dense_run(optimizer, start);
    table.update(std::vector<std::int32_t>{0}, g, {.rate = 0.01});
    dense_run.step(0.01, 0, g);
    std::vector<double> expected, m, v;
    for (std::size_t t = 1; t <= 500; ++t) {
        dense_run.step(0.01, 9, g);
        if (t == 5) expected = dense_run.rows[0].w;
        table.update(std::vector<std::int32_t>{}, std::vector<double>{}, {.rate = 0.01});
    }
    CHECK(table.row(0) == expected);
    table.flush();
    CHECK(table.row(0) == expected);
    for (std::size_t i = 0; i < width; ++i) {
        // The step's own roundings (three in v), and the roundings of the power: 3 |log factor|
        // 500 + 4.
        CHECK(std::abs(table.state<"m">()[i] / (0.1 * g[i] * std::pow(0.9, 500)) - 1) <= (3 * 0.11 * 500 + 16) * u);
        CHECK(std::abs(table.state<"v">()[i] / (0.001 * g[i] * g[i] * std::pow(0.999, 500)) - 1) <=
              (3 * 0.0011 * 500 + 16) * u + 2 * 1000 * u); // 1 - 0.999 carries 1000 roundings of 0.999
    }
}

TEST_CASE("row_steps counts bias corrections by the touches of a row", "[replay]") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::external{}, gs::serial_backend{});
    gs::table table{optimizer, 3, width, gs::touch_only{}, {.initial = gs::uniform{-1, 1, 5}, .row_steps = true}};
    std::vector<float> const g = gradient_of<float>(3);
    // Row 1 is touched at step 101 and 151: its first and second step.
    std::vector<float> w = table.row(1), m(width), v(width);
    auto own = optimizer;
    for (int t = 0; t < 200; ++t) {
        bool const mine = t == 100 || t == 150;
        double const rate = t < 120 ? 0.01 : 0.005;
        table.update(std::vector<std::int64_t>{mine ? 1 : 0}, g, {.rate = rate});
        if (mine) own.next_step({.rate = rate})(w, g, m, v);
        CHECK(table.row(1) == w);
    }
    CHECK(table.memory().touches[0] == 198);
    CHECK(table.memory().touches[1] == 2);
    CHECK(table.memory().touches[2] == 0);
}

TEST_CASE("replay has no number of a row's own for a missed step: row_steps is refused", "[replay]") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.1}, gs::serial_backend{});
    auto const text = refusal<gs::value_error>([&] {
        gs::table table{optimizer, 3, 2, gs::replay{10}, {.row_steps = true}};
    });
    CHECK(text.find("row_steps: true is given with replay") != text.npos);
    CHECK(text.find("touch_only") != text.npos);
    CHECK(refusal<gs::value_error>([&] {
              gs::table table{optimizer, 3, 2, gs::replay{}};
          }).find("replay.max_steps") != std::string::npos);
}
