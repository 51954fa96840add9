/// The tables of docs/reference/dtypes.md: how far the weights of a dtype are, after some steps,
/// from the weights of the rule's formula in long double. Prints Markdown, the same on every run.
/// `./dev bench rounding` builds and runs it.
///
/// The problem is a quadratic, a gradient is curvature * (w - target) + noise, and every run takes
/// it at its own weights: an element rounds it to its storage, the formula has it in long double.
/// The first weights are the same numbers for all. The error of a weight is |w - exact w| in ulp of
/// the element's storage, at the larger one of the exact weight and the root mean square of all.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rounding_problem.hpp"
#include "rules.hpp"

using namespace rounding;

namespace {

constexpr std::array<int, 3> reported = {1, 100, 1000};
using elements =
    std::tuple<float, double, gs::bfloat16, gs::float16, gs::mixed<gs::bfloat16>, gs::stochastic<gs::bfloat16>>;

/// Where the formula of a rule is itself the scale of a step, the rate is 1.
template <class Rule> constexpr double rate = std::is_same_v<Rule, gs::adadelta> ? 1 : 1e-3;

/// The distance between neighbouring numbers of T in the binade of x. No x is below 2^-14.
template <class T> real ulp(real x) {
    constexpr int digits = std::is_same_v<T, gs::bfloat16>  ? 8
                           : std::is_same_v<T, gs::float16> ? 11
                                                            : std::numeric_limits<T>::digits;
    return std::ldexp(real(1), std::ilogb(x) + 1 - digits);
}

using weights = std::vector<real>;
using history = std::array<weights, reported.size()>; // the weights after each of the reported numbers of steps

/// Runs steps 1 to 1000; `step(t)` takes one, `weight(i)` is what it has come to.
template <class Step, class Weight> history recorded(Step const& step, Weight const& weight) {
    history out;
    std::size_t next = 0;
    for (int t = 1; t <= reported.back(); ++t) {
        step(t);
        if (t != reported[next]) continue;
        weights& now = out[next++];
        for (std::size_t i = 0; i < size; ++i) now.push_back(weight(i));
    }
    return out;
}

/// A run of the library.
template <class Element, class Rule> history run(Rule const& rule) {
    auto optimizer = gs::make_updater<Element>(rule, gs::constant{rate<Rule>}, gs::serial_backend{});
    using updater = decltype(optimizer);
    using storage = typename updater::traits::storage;
    std::vector<storage> w(size), g(size);
    std::array<std::vector<typename updater::traits::state>, updater::slots> state;
    for (std::size_t s = 0; s < updater::slots; ++s) state[s].resize(updater::slot_size(s, size));
    for (std::size_t i = 0; i < size; ++i) w[i] = rounded<storage>(first_weight(i));
    std::apply([&](auto&... slot) { optimizer.initialize(w, slot...); }, state);
    return recorded(
        [&](int t) {
            for (std::size_t i = 0; i < size; ++i) g[i] = rounded<storage>(gradient(t, i, widened(w[i])));
            auto const step = optimizer.next_step();
            std::apply([&](auto&... slot) { step(w, g, slot...); }, state);
        },
        [&](std::size_t i) { return widened(w[i]); });
}

/// The formula of the oracle, which goes on from its own numbers in long double.
template <class Oracle, class Rule> history exact(Rule const& rule) {
    constexpr std::size_t slots = gs::slot_count<Rule>, row_slots = gs::row_slot_count<Rule>;
    weights w(size), g(size);
    for (std::size_t i = 0; i < size; ++i) w[i] = first_weight(i);
    // The first state is the library's in double, where it is exact.
    std::vector<std::array<real, slots>> state(size);
    std::array<real, row_slots> row{};
    {
        auto const optimizer = gs::make_updater<double>(rule, gs::constant{rate<Rule>}, gs::serial_backend{});
        std::vector<double> const start(w.begin(), w.end());
        auto copy = start;
        std::array<std::vector<double>, slots + row_slots> first;
        for (std::size_t s = 0; s < first.size(); ++s) first[s].resize(optimizer.slot_size(s, size));
        std::apply([&](auto&... slot) { optimizer.initialize(copy, slot...); }, first);
        for (std::size_t s = 0; s < slots; ++s)
            for (std::size_t i = 0; i < size; ++i) state[i][s] = first[s][i];
        for (std::size_t s = 0; s < row_slots; ++s) row[s] = first[slots + s][0];
    }
    auto const step = [&](int t) {
        for (std::size_t i = 0; i < size; ++i) g[i] = gradient(t, i, w[i]);
        Oracle formula(rule, oracle::step_in<double>(t, rate<Rule>));
        if constexpr (gs::row_wise_rule<Rule>) {
            decltype(formula.accumulate(w[0], g[0], state[0])) sums;
            std::vector<oracle::outcome> parts(size);
            for (std::size_t m = 0; m < sums.size(); ++m) {
                for (std::size_t i = 0; i < size; ++i) parts[i] = formula.accumulate(w[i], g[i], state[i])[m];
                sums[m] = oracle::total_of(formula, parts, m);
            }
            auto const after = formula.finalize(sums, real(size), row);
            for (std::size_t s = 0; s < row_slots; ++s) row[s] = after[s].value;
        }
        for (std::size_t i = 0; i < size; ++i) {
            auto const to = formula(w[i], g[i], state[i]);
            w[i] = to.weight.value;
            for (std::size_t s = 0; s < slots; ++s) state[i][s] = to.state[s].value;
        }
    };
    return recorded(step, [&](std::size_t i) { return w[i]; });
}

std::string number(real x) {
    char text[32];
    std::snprintf(text, sizeof text, x < 10 ? "%.2Lf" : x < 9999.5L ? "%.0Lf" : "%.0Le", x);
    return text;
}

/// "median / largest"
template <class Storage> std::string errors(weights const& is, weights const& right) {
    real squares = 0;
    for (real const x : right) squares += x * x;
    real const typical = std::sqrt(squares / real(size));
    weights error;
    for (std::size_t i = 0; i < size; ++i)
        error.push_back(std::abs(is[i] - right[i]) / ulp<Storage>(std::max(std::abs(right[i]), typical)));
    std::ranges::sort(error);
    return number(error[size / 2]) + " / " + number(error.back());
}

using table = std::vector<std::string>; // lines

template <class Oracle, class Rule> void add_lines(std::array<table, reported.size()>& tables, Rule const& rule) {
    history const right = exact<Oracle>(rule);
    for (table& t : tables) t.push_back("| " + name_of(rule) + " |");
    [&]<class... Element>(std::type_identity<std::tuple<Element...>>) {
        auto const add = [&]<class E>(std::type_identity<E>) {
            history const is = run<E>(rule);
            for (std::size_t k = 0; k < reported.size(); ++k)
                tables[k].back() += " " + errors<typename gs::element_traits<E>::storage>(is[k], right[k]) + " |";
        };
        (add(std::type_identity<Element>{}), ...);
    }(std::type_identity<elements>{});
}

} // namespace

int main() {
    std::array<table, reported.size()> tables;
    for_each_line([&]<class Entry>(Entry const& entry) {
        constexpr bool is_model_wise = gs::model_wise_rule<typename Entry::rule>; // its step size has errors of its own
        if constexpr (!is_model_wise && !requires { entry.settings[0].average; }) // of weights, which no average moves
            add_lines<typename Entry::oracle>(tables, entry.settings[0]);
    });

    std::string head = "| rule |", rule = "|---|";
    [&]<class... Element>(std::type_identity<std::tuple<Element...>>) {
        ((head += std::string(" `") + gs::element_traits<Element>::name + "` |", rule += "---|"), ...);
    }(std::type_identity<elements>{});
    for (std::size_t k = 0; k < reported.size(); ++k) {
        std::printf("%sAfter %d step%s:\n\n%s\n%s\n", k == 0 ? "" : "\n", reported[k], reported[k] == 1 ? "" : "s",
                    head.c_str(), rule.c_str());
        for (std::string const& line : tables[k]) std::printf("%s\n", line.c_str());
    }
}
