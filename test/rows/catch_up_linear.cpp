// Exact catch-up where a step without gradient is linear in weight and momentum, against a dense
// sweep in long double.
#include <cmath>
#include <cstdint>
#include <vector>

#include <rows/catch_up.hpp>

namespace {

using dense::penalties, dense::rule;

dense::script const many_gaps{.gaps = {1, 2, 3, 10, 1000, 1999}, .flush_at = 1234};
dense::script const long_gap{.gaps = {1000, 100'000}, .read_every = 20'000, .odd_steps = false, .max_history = 1 << 17};
constexpr std::size_t steps = 2001, many_steps = 100'001;

// A pull so weak that momentum does not make the weight swing: lr * x / (1 - mu) below
// (1 - mu) / (1 + mu).
double strength(double mu) { return 20 * (1 - mu) * (1 - mu); }

template <class Element, class Rule, class Regularizer>
void follow(Rule policy, Regularizer regularizer, dense::settings const& of, dense::script const& s = many_gaps,
            std::size_t n = steps) {
    auto const optimizer = gs::make_updater<Element>(policy, regularizer, gs::external{}, gs::serial_backend{});
    dense::follow_schedules(optimizer, of, s, n);
}

template <class Element, class Rule>
void under_all_of(rule which, double mu, double x, dense::script const& s = many_gaps, std::size_t n = steps) {
    follow<Element>(Rule{.mu = mu}, gs::all_of{gs::l2{x / 2}, gs::decoupled{x / 4}, gs::proximal{gs::l2{x / 4}}},
                    {.rule = which, .penalties = {.l2 = x / 2, .decoupled = x / 4, .prox_l2 = x / 4}, .mu = mu}, s, n);
}
template <class Rule> void under_every_regularizer(rule which) {
    for (double const mu : {0.5, 0.9, 0.999}) {
        double const x = strength(mu);
        auto const under = [&](auto const& regularizer, penalties const& what) {
            follow<double>(Rule{.mu = mu}, regularizer, {.rule = which, .penalties = what, .mu = mu});
        };
        under(gs::none{}, {});
        under(gs::l2{x}, {.l2 = x});
        under(gs::decoupled{x}, {.decoupled = x});
        under(gs::after_step{gs::decoupled{x}}, {.decoupled = x, .decay_is_last = true});
        under(gs::proximal{gs::l2{x}}, {.prox_l2 = x});
        under_all_of<double, Rule>(which, mu, x);
    }
}

} // namespace

TEST_CASE("exact is the dense sweep: momentum", "[catch_up]") { under_every_regularizer<gs::momentum>(rule::momentum); }
TEST_CASE("exact is the dense sweep: nesterov", "[catch_up]") { under_every_regularizer<gs::nesterov>(rule::nesterov); }

TEST_CASE("exact is the dense run: qhm, in numbers that double has", "[catch_up]") {
    auto const optimizer =
        gs::make_updater<double>(gs::qhm{.beta = 0.5, .nu = 0.25}, gs::constant{0.5}, gs::serial_backend{});
    gs::table table{optimizer, 1, 1, gs::exact{}, {.initial = std::vector<double>{1}}};
    std::vector<std::int32_t> const row{0}, none;
    table.update(row, std::vector<double>{4}); // m = 2
    CHECK(table.row(0)[0] == -0.75);
    for (int t = 0; t < 20; ++t) table.update(none, std::vector<double>{});
    double const left = std::exp2(-20);
    CHECK(table.row(0)[0] == -0.75 - 0.25 * (1 - left)); // 0.5 * 0.25 * (1 + 1/2 + 1/4 + ...)
    table.update(row, std::vector<double>{4});
    CHECK(table.row(0)[0] == -0.75 - 0.25 * (1 - left) - 0.5 * (0.75 * 4 + 0.25 * (2 + left)));
}

TEMPLATE_TEST_CASE("exact is the dense sweep: sgd with a coupled l2", "[catch_up]", double, float) {
    follow<TestType>(gs::sgd{}, gs::l2{0.05}, {.rule = rule::sgd, .penalties = {.l2 = 0.05}});
    follow<TestType>(gs::sgd{}, gs::l2{0.002}, {.rule = rule::sgd, .penalties = {.l2 = 0.002}}, long_gap, many_steps);
}

TEMPLATE_TEST_CASE("exact is the dense sweep of momentum for each element", "[catch_up]", float, gs::bfloat16,
                   gs::mixed<gs::bfloat16>) {
    under_all_of<TestType, gs::momentum>(rule::momentum, 0.9, strength(0.9));
}

TEMPLATE_TEST_CASE("exact is the dense sweep of momentum over gaps of 100 000 steps", "[catch_up]", double, float) {
    for (double const mu : {0.5, 0.9, 0.999}) {
        double const x = std::min(strength(mu), 0.002); // something is left
        under_all_of<TestType, gs::momentum>(rule::momentum, mu, x, long_gap, many_steps);
    }
    under_all_of<TestType, gs::nesterov>(rule::nesterov, 0.9, 0.002, long_gap, many_steps);
}
