// Every rule against its formula in long double: 200 steps (50 in the stricter builds), each from
// the actual state, so that errors do not add up.
#include <support/each_rule.hpp>
#include <support/erased.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct findings {
    std::size_t compared = 0, at_threshold = 0;
    long double worst = 0; // error of a weight in ulp of max(|w|, |update|)
    std::string first_miss;
};

// What the numbers of an arithmetic are spaced by.
struct arithmetic {
    long double u;
    int digits;
    long double smallest;

    template <class T> static arithmetic of() {
        using limits = std::numeric_limits<T>;
        return {limits::epsilon() / 2.0L, limits::digits, limits::min()};
    }
    static arithmetic of(runs::element const& element) {
        return element.compute == &type_of<double> ? of<double>() : of<float>();
    }
    long double ulp(long double x) const {
        int exponent = 0;
        std::frexp(std::max(x, smallest), &exponent);
        return std::ldexp(1.0L, exponent - digits);
    }
    bool within(long double actual, oracle::outcome expected) const {
        constexpr long double allowed = 1.01L; // oracle.hpp
        return std::abs(actual - expected.value) <= allowed * u * expected.error;
    }
};

// How a miss is told: the step, and for each number what it was, what it is, and what it had to be.
class report {
public:
    report(std::int64_t step, char const* what, double x) {
        out_.precision(20);
        out_ << "step " << step << ", " << what << " = " << x;
    }
    report& add(std::string const& name, double before, double after, oracle::outcome expected) {
        out_ << "; " << name << ": " << before << " -> " << after << ", expected " << expected.value;
        return *this;
    }
    std::string text() const { return out_.str(); }

private:
    std::ostringstream out_;
};

void compare(arithmetic const& in, std::int64_t t, runs::snapshot const& before, runs::snapshot const& after,
             std::size_t slots, runs::prediction const& expected, findings& found) {
    std::size_t const n = before.weight.size();
    for (std::size_t i = 0; i < n; ++i) {
        auto const& e = expected.elements[i];
        if (e.at_threshold) {
            ++found.at_threshold;
            continue;
        }
        ++found.compared;
        auto const scale = std::max<long double>(std::abs(before.weight[i]), std::abs(e.update));
        found.worst = std::max(found.worst, std::abs(after.weight[i] - e.weight.value) / in.ulp(scale));

        bool right = in.within(after.weight[i], e.weight);
        for (std::size_t s = 0; s < slots; ++s) right = right && in.within(after.state[s][i], e.state[s]);
        if (right || !found.first_miss.empty()) continue;
        report miss(t, "g", before.gradient[i]);
        miss.add("weight", before.weight[i], after.weight[i], e.weight);
        for (std::size_t s = 0; s < slots; ++s)
            miss.add("slot " + std::to_string(s), before.state[s][i], after.state[s][i], e.state[s]);
        found.first_miss = miss.text();
    }
    for (std::size_t s = 0; s < expected.row.size(); ++s) {
        double const was = before.state[slots + s][0], is = after.state[slots + s][0];
        if (in.within(is, expected.row[s]) || !found.first_miss.empty()) continue;
        report miss(t, "elements", static_cast<double>(n));
        found.first_miss = miss.add("row slot " + std::to_string(s), was, is, expected.row[s]).text();
    }
}

// The clock's state after a step of a model-wise rule.
void compare(arithmetic const& in, gs::clock const& before, gs::clock const& after,
             std::vector<oracle::outcome> const& expected, findings& found) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (in.within(after.state[i], expected[i]) || !found.first_miss.empty()) continue;
        report miss(after.step, "numbers of the clock", static_cast<double>(expected.size()));
        found.first_miss = miss.add("number " + std::to_string(i), before.state[i], after.state[i], expected[i]).text();
    }
}

// What the oracle of the optimizer's rule expects of a step on tensors.
using formula = std::function<std::vector<runs::prediction>(gs::clock const& before, gs::clock const& after,
                                                            double rate, std::span<runs::snapshot const> tensors)>;

void follow(runs::optimizer optimizer, formula const& expected, arithmetic const& in, std::vector<std::size_t> sizes,
            std::size_t offset, int steps, std::function<double(gs::clock)> const& schedule, findings& found) {
    std::vector<runs::tensor> model;
    for (std::size_t const n : sizes) model.emplace_back(optimizer, n, offset, 7 * model.size());
    auto const slots = static_cast<std::size_t>(
        std::ranges::count_if(model[0].format().slots, [](runs::slot const& s) { return !s.is_row_slot; }));
    for (int k = 0; k < steps; ++k) {
        gs::clock const clock = optimizer.clock();
        auto const step = optimizer.next_step({.rate = schedule(clock)});
        std::vector<runs::snapshot> before;
        std::vector<runs::view> views;
        for (auto& x : model) {
            x.set_gradient(step.number());
            before.emplace_back(x);
            views.push_back(x.view());
        }
        if (model.size() == 1) step(model[0]);
        else step(views);
        auto const all = expected(clock, optimizer.clock(), step.rate(), before);
        compare(in, clock, optimizer.clock(), all[0].clock, found);
        for (std::size_t i = 0; i < model.size(); ++i)
            compare(in, step.number(), before[i], runs::snapshot(model[i]), slots, all[i], found);
    }
    for (auto const& x : model) CHECK(x.guards_stand());
}

void follow_everywhere(runs::rule const& rule, runs::element const& element) {
    auto const schedule = gs::warmup{gs::cosine{.rate = 0.05, .steps = 150, .end = 0.001}, 20, 0.01};
    auto const expected = [&](gs::clock const& before, gs::clock const& after, double rate,
                              std::span<runs::snapshot const> tensors) {
        return rule.predict(element, before, after, rate, tensors);
    };
    constexpr int steps = GRADSTEP_TEST_EVERYTHING ? 200 : 50;
    findings found;
    std::size_t const l = element.lanes;
    auto const on = [&](runs::backend backend, std::size_t n, std::size_t offset) {
        follow(rule.on(element, backend), expected, arithmetic::of(element), {n}, offset, steps, schedule, found);
    };
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, l - 1, l, l + 1, 3 * l + 2})
        for (unsigned const offset : {0u, 1u})
            for (auto const backend : {runs::backend::serial, runs::backend::simd}) on(backend, n, offset);
    std::size_t const many = 513;
    on(runs::backend::simd, many, 0); // the serial backend, and other offsets, have its bits: bits.cpp
    if (rule.model_wise && element.number == runs::element_of<float>().number) // tensors of a model
        follow(rule.on(element, runs::backend::simd), expected, arithmetic::of(element), {many, 0, 5, 2 * l}, 1, steps,
               schedule, found);
    CAPTURE(found.compared, found.worst);
    CHECK(found.first_miss == "");
    CHECK(found.at_threshold * 10'000 <= found.compared); // one in ten thousand elements
}

} // namespace

RULE_TEST_CASE("in float it is its paper's formula, within its roundings", "[oracle]") {
    follow_everywhere(rule, runs::element_of<float>());
}
RULE_TEST_CASE("in double it is its paper's formula, within its roundings", "[oracle]") {
    if (rule.has<double>()) follow_everywhere(rule, runs::element_of<double>());
}

TEST_CASE("the bias corrections of adam are of this step beyond 2^24 steps, where float stops counting", "[oracle]") {
    // beta2^t changes from step to step by 1e-8, which a double shows and a step number held in
    // float would not.
    gs::adam const slow{.beta1 = 0.5, .beta2 = 1 - 1e-8};
    auto optimizer = runs::erased(gs::make_updater<double>(slow, gs::external{}));
    optimizer.seek({.step = std::int64_t{1} << 24});
    auto const expected = [&](gs::clock const&, gs::clock const& after, double rate,
                              std::span<runs::snapshot const> tensors) {
        oracle::adam const formula(slow, oracle::step_in<double>(after.step, rate));
        return std::vector{runs::predicted<gs::adam>(formula, tensors[0])};
    };
    findings found;
    follow(optimizer, expected, arithmetic::of<double>(), {99}, 0, 3, gs::constant{0.01}, found);
    CHECK(found.first_miss == "");
    CHECK(found.compared == 3 * 99);
}
