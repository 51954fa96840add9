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

template <class T, class Oracle, std::size_t Slots>
void compare(Oracle const& formula, element<T, Slots> before, T gradient, element<T, Slots> after, findings& found) {
    std::array<long double, Slots> state;
    std::copy(before.state.begin(), before.state.end(), state.begin());
    auto const expected = formula(before.weight, gradient, state);
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

template <class Oracle, class Updater>
void follow(Updater optimizer, std::size_t n, std::size_t offset, int steps, findings& found) {
    using T = typename Updater::element_type;
    tensor x(optimizer, n, offset);
    std::vector<element<T, Updater::slots>> before(n);
    auto const at = [&](std::size_t i) {
        element<T, Updater::slots> out{x.weight[i], {}};
        for (std::size_t s = 0; s < Updater::slots; ++s) out.state[s] = x.state[s][i];
        return out;
    };
    for (int k = 0; k < steps; ++k) {
        for (std::size_t i = 0; i < n; ++i) before[i] = at(i);
        auto const step = optimizer.next_step();
        x.set_gradient(step.number());
        x.take(step);
        Oracle const formula(optimizer.rule(), oracle::step_in<T>(step.number(), step.rate()));
        for (std::size_t i = 0; i < n; ++i) compare(formula, before[i], x.gradient[i], at(i), found);
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
