// Exact catch-up of rows that shrink, for each element and over long gaps, against a dense sweep in
// long double.
#include <rows/catch_up.hpp>

namespace {

using dense::penalties, dense::rule;

struct strengths {
    double decoupled, l1, l2;
};
constexpr strengths usual{0.05, 0.004, 0.05}, weak{0.002, 2e-5, 0.002}; // weak: something is left after 100 000 steps

dense::script const many_gaps{.gaps = {1, 2, 3, 10, 1000, 1999}, .flush_at = 1234};
// One history for the whole run, so that a row is away for all of it.
dense::script const long_gap{.gaps = {1000, 100'000}, .read_every = 20'000, .odd_steps = false, .max_history = 1 << 17};
constexpr std::size_t steps = 2001, many_steps = 100'001;

template <class Element, class Rule, class Regularizer>
void follow(Rule policy, Regularizer regularizer, dense::settings const& of, dense::script const& s, std::size_t n) {
    auto const optimizer = gs::make_updater<Element>(policy, regularizer, gs::external{}, gs::serial_backend{});
    dense::follow_schedules(optimizer, of, s, n);
}

template <class Element> void follow_sgd(strengths x, dense::script const& s, std::size_t n) {
    follow<Element>(gs::sgd{}, gs::proximal{gs::elastic_net{.l1 = x.l1, .l2 = x.l2}},
                    {.rule = rule::sgd, .penalties = {.prox_l1 = x.l1, .prox_l2 = x.l2}}, s, n);
}
template <class Element> void follow_adagrad(strengths x, dense::script const& s, std::size_t n) {
    follow<Element>(gs::adagrad{.initial_accumulator = 0.1},
                    gs::all_of{gs::clip_value{0.5}, gs::decoupled{x.decoupled},
                               gs::proximal{gs::elastic_net{.l1 = x.l1, .l2 = x.l2}}},
                    {.rule = rule::adagrad,
                     .penalties = {.clip = 0.5, .decoupled = x.decoupled, .prox_l1 = x.l1, .prox_l2 = x.l2},
                     .initial = 0.1},
                    s, n);
}
template <class Element> void follow_rowwise_adagrad(strengths x, dense::script const& s, std::size_t n) {
    follow<Element>(gs::rowwise_adagrad{.initial_accumulator = 0.1}, gs::decoupled{x.decoupled},
                    {.rule = rule::rowwise_adagrad, .penalties = {.decoupled = x.decoupled}, .initial = 0.1}, s, n);
}

} // namespace

TEMPLATE_TEST_CASE("exact is the dense sweep for each element", "[catch_up]", float, gs::bfloat16,
                   gs::mixed<gs::bfloat16>) {
    follow_sgd<TestType>(usual, many_gaps, steps);
    follow_adagrad<TestType>(usual, many_gaps, steps);
    if constexpr (std::is_same_v<TestType, float>) follow_rowwise_adagrad<TestType>(usual, many_gaps, steps);
}

TEMPLATE_TEST_CASE("exact is the dense sweep over gaps of 100 000 steps", "[catch_up]", double, float) {
    follow_sgd<TestType>(weak, long_gap, many_steps);
    follow_adagrad<TestType>(weak, long_gap, many_steps);
    follow_rowwise_adagrad<TestType>(weak, long_gap, many_steps);
}

TEST_CASE("neither a long decay nor a large threshold costs digits", "[catch_up]") {
    // The sum of log a is 800 in the end: what its additions lose would be a hundred times the
    // bound.
    follow_sgd<double>({.decoupled = 0, .l1 = 1e-3, .l2 = 50}, many_gaps, steps);
    // The running threshold is many times a row's own: formed in float, as q * D0 off D, it would
    // be outside.
    follow_sgd<float>({.decoupled = 0, .l1 = 0.05, .l2 = 0.001}, many_gaps, steps);
}

// The defects of Paddle v1 (Regularizer.h: the gap times the rate, with today's learning rate,
// once) and of FBGEMM (the power of today's factor).
TEST_CASE("the gap times today's rate is not what a dense run does", "[catch_up]") {
    constexpr std::size_t gap = 1000;
    dense::settings const of{.rule = rule::sgd, .penalties = {.decoupled = 0.05, .prox_l1 = 0.004}};
    auto const optimizer = gs::make_updater<double>(
        gs::sgd{}, gs::all_of{gs::decoupled{0.05}, gs::proximal{gs::l1{0.004}}}, gs::external{}, gs::serial_backend{});
    for (auto const& [name, rates] : dense::schedules(gap)) {
        CAPTURE(name);
        std::vector<double> const start{0.75};
        gs::table table{optimizer, 1, 1, gs::exact{}, {.initial = start}};
        dense::run<double> oracle(of, 1, rates, start);
        for (double const rate : rates) {
            table.update(std::vector<std::int32_t>{}, std::vector<double>{}, {.rate = rate});
            oracle.step({nullptr});
        }
        auto const expected = oracle.weight(0, 0);
        auto const passes = [&](double w) { return dense::within(w, expected, oracle.unit, oracle.least); };
        double const today = rates.back(), n = gap;
        double const linear = start[0] * (1 - n * today * 0.05) - n * today * 0.004;
        double const power = start[0] * std::pow(1 - today * 0.05, n) - n * today * 0.004;
        CHECK(passes(table.row(0)[0]));
        REQUIRE(!passes(linear));
        REQUIRE(!passes(power));
        bool const decays = rates.back() < rates[gap / 2];
        REQUIRE((decays || std::string(name) == "constant" || std::string(name) == "pieces"));
        if (!decays) continue;
        REQUIRE(std::abs(linear - expected.value) >= 0.05L * expected.value);
        REQUIRE(std::abs(power - expected.value) >= 0.05L * expected.value);
    }
}
