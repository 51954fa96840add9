// Every rule against its formula in long double: 200 steps, each from the actual state, so that errors do not add up.
#include <support/catch.hpp>
#include <support/oracle.hpp>
#include <support/registry.hpp>
#include <support/tensors.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

struct findings {
    std::size_t compared = 0, at_threshold = 0;
    long double worst = 0; // error of a weight in ulp of max(|w|, |update|)
    std::string first_miss;
};

template <class T> long double ulp(long double x) {
    int exponent = 0;
    std::frexp(std::max(x, static_cast<long double>(std::numeric_limits<T>::min())), &exponent);
    return std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
}

template <class T> bool within(T actual, oracle::outcome expected) {
    constexpr long double u = std::numeric_limits<T>::epsilon() / 2, allowed = 1.01L; // oracle.hpp
    return std::abs(actual - expected.value) <= allowed * u * expected.error;
}

// An element before or after a step.
template <class T, std::size_t Slots> struct element {
    T weight;
    std::array<T, Slots> state;
};

template <class T, std::size_t N> std::array<long double, N> reals(std::array<T, N> const& x) {
    std::array<long double, N> out;
    std::copy(x.begin(), x.end(), out.begin());
    return out;
}

template <class T, class Oracle, std::size_t Slots>
void compare(Oracle const& formula, element<T, Slots> before, T gradient, element<T, Slots> after, findings& found) {
    auto const expected = formula(before.weight, gradient, reals(before.state));
    if (expected.at_threshold) {
        ++found.at_threshold;
        return;
    }
    ++found.compared;
    long double const scale = std::max<long double>(std::abs(before.weight), std::abs(expected.update));
    found.worst = std::max(found.worst, std::abs(after.weight - expected.weight.value) / ulp<T>(scale));

    bool right = within(after.weight, expected.weight);
    for (std::size_t s = 0; s < Slots; ++s) right = right && within(after.state[s], expected.state[s]);
    if (right || !found.first_miss.empty()) return;
    std::ostringstream out;
    out.precision(20);
    out << "step " << formula.at.t << ", g = " << gradient << ": weight " << before.weight << " -> " << after.weight
        << ", expected " << expected.weight.value;
    for (std::size_t s = 0; s < Slots; ++s)
        out << "; slot " << s << ": " << before.state[s] << " -> " << after.state[s] << ", expected "
            << expected.state[s].value;
    found.first_miss = out.str();
}

// What a tensor is before or after a step: its elements, and what a row-wise rule has once.
template <class Updater> struct snapshot {
    using T = typename Updater::element_type;
    using rule = typename Updater::rule_type;
    static constexpr std::size_t slots = gs::slot_count<rule>, row_slots = gs::row_slot_count<rule>;

    std::vector<element<T, slots>> elements;
    std::array<T, row_slots> row;

    explicit snapshot(tensor<Updater> const& x) : elements(x.size()), row() {
        for (std::size_t i = 0; i < x.size(); ++i) {
            elements[i].weight = x.weight[i];
            for (std::size_t s = 0; s < slots; ++s) elements[i].state[s] = x.state[s][i];
        }
        for (std::size_t s = 0; s < row_slots; ++s) row[s] = x.state[slots + s][0];
    }
};

// Lets the formula of a row-wise rule see the whole tensor, and compares what the row became; of no elements it stays.
template <class Oracle, class Updater, class Gradient>
void settle(Oracle& formula, snapshot<Updater> const& before, Gradient const& gradient, snapshot<Updater> const& after,
            findings& found) {
    std::size_t const n = before.elements.size();
    if (n == 0) {
        if (before.row != after.row) found.first_miss = "the state of a tensor without elements has changed";
        return;
    }
    auto const observed = [&](std::size_t i) {
        auto const& x = before.elements[i];
        return formula.observe(x.weight, gradient[i], reals(x.state));
    };
    decltype(observed(0)) sums;
    std::vector<oracle::outcome> parts(n);
    for (std::size_t m = 0; m < sums.size(); ++m) {
        for (std::size_t i = 0; i < n; ++i) parts[i] = observed(i)[m];
        sums[m] = oracle::total(parts, formula.at);
    }
    auto const expected = formula.settle(sums, static_cast<long double>(n), reals(before.row));
    for (std::size_t s = 0; s < expected.size(); ++s) {
        if (within(after.row[s], expected[s]) || !found.first_miss.empty()) continue;
        std::ostringstream out;
        out.precision(20);
        out << "step " << formula.at.t << ", " << n << " elements: row slot " << s << ": " << before.row[s] << " -> "
            << after.row[s] << ", expected " << expected[s].value;
        found.first_miss = out.str();
    }
}

template <class Oracle, class Updater>
void follow(Updater optimizer, std::size_t n, std::size_t offset, int steps, findings& found) {
    using T = typename Updater::element_type;
    tensor x(optimizer, n, offset);
    for (int k = 0; k < steps; ++k) {
        snapshot const before(x);
        auto const step = optimizer.next_step();
        x.set_gradient(step.number());
        x.take(step);
        snapshot const after(x);
        Oracle formula(optimizer.rule(), oracle::step_in<T>(step.number(), step.rate()));
        if constexpr (gs::row_wise_rule<typename Updater::rule_type>) settle(formula, before, x.gradient, after, found);
        for (std::size_t i = 0; i < n; ++i)
            compare(formula, before.elements[i], x.gradient[i], after.elements[i], found);
    }
    CHECK(x.guards_stand());
}

template <class Entry, class T> void follow_everywhere() {
    auto const schedule = gs::warmup{gs::cosine{.rate = 0.05, .steps = 150, .end = 0.001}, 20, 0.01};
    for (auto const& rule : settings_of<Entry>()) {
        auto const serial = gs::make_updater<T>(rule, schedule, gs::serial_backend{});
        auto simd = gs::make_updater<T>(rule, schedule, gs::simd_backend{});
        CAPTURE(simd.description());
        findings found;
        for (std::size_t const n : awkward_sizes<T>()) {
            for (unsigned const offset : {0u, 1u}) {
                follow<typename Entry::oracle>(serial, n, offset, 200, found);
                follow<typename Entry::oracle>(simd, n, offset, 200, found);
            }
        }
        CAPTURE(found.compared, found.worst);
        CHECK(found.first_miss == "");
        CHECK(found.at_threshold * 10'000 <= found.compared); // one in ten thousand elements
    }
}

} // namespace

TEMPLATE_LIST_TEST_CASE("a rule in float is its paper's formula, within its roundings", "[oracle]", registered) {
    follow_everywhere<TestType, float>();
}
TEMPLATE_LIST_TEST_CASE("a rule in double is its paper's formula, within its roundings", "[oracle]", registered) {
    follow_everywhere<TestType, double>();
}

TEST_CASE("the bias corrections of adam are of this step beyond 2^24 steps, where float stops counting", "[oracle]") {
    // beta2^t changes from step to step by 1e-8, which a double shows and a step number held in float would not.
    gs::adam const slow{.beta1 = 0.5, .beta2 = 1 - 1e-8};
    auto optimizer = gs::make_updater<double>(slow, gs::constant{0.01});
    optimizer.seek({.step = std::int64_t{1} << 24});
    findings found;
    follow<oracle::adam>(optimizer, 99, 0, 3, found);
    CHECK(found.first_miss == "");
}
