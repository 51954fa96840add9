// What every row-wise rule does at the lengths at which its sums change their shape, and with
// numbers near the ends of their type. The formulas are held by oracle.cpp, the first steps by the
// file of each rule in test/rules.
#include <support/each_rule.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace {

using runs::backend;

constexpr gs::step_options options{.rate = 0.05};
constexpr int steps = 3;

#if GRADSTEP_TEST_EVERYTHING
constexpr unsigned numbers_of_threads[] = {2, 3};
constexpr std::size_t lengths_worth_threads[] = {49 * 4096 + 1, 200'007};
#else
constexpr unsigned numbers_of_threads[] = {3};
constexpr std::size_t lengths_worth_threads[] = {49 * 4096 + 1};
#endif

runs::element const& float_element() { return runs::element_of<float>(); }

std::string difference_to_serial(runs::rule const& rule, runs::element const& element, runs::executor& executor,
                                 std::size_t n) {
    auto serial = rule.on(element, element.backends[0]), other = rule.on(element, backend::simd, executor);
    runs::tensor expected(serial, n), x(other, n, n % 5);
    expected.train(serial, steps, options);
    x.train(other, steps, options);
    return difference(x, expected);
}

} // namespace

TEST_CASE("a row-wise rule has the same bits on every backend, around columns, blocks and threads", "[row_wise]") {
    for (runs::rule const* rule : runs::row_wise_rules()) {
        CAPTURE(rule->description());
        runs::executor alone;
        for (std::size_t const n : {1u, 31u, 32u, 33u, 63u, 65u, 4095u, 4096u, 4097u, 4127u, 4129u, 8192u, 10'000u})
            for (auto const& element : rule->elements()) {
                CAPTURE(n, element.name);
                CHECK(difference_to_serial(*rule, element, alone, n) == "");
            }
        for (unsigned const threads : numbers_of_threads) {
            gs::thread_pool pool(threads);
            runs::executor executor(pool);
            for (std::size_t const n : lengths_worth_threads)
                CHECK(difference_to_serial(*rule, float_element(), executor, n) == "");
        }
    }
}

TEST_CASE("the squares of a row-wise rule may be of any size that is normal", "[row_wise]") {
    for (runs::rule const* rule : runs::row_wise_rules()) {
        if (rule->model_wise) continue; // its slots begin with the weights, or are scaled by d
        CAPTURE(rule->description());
        for (double const size : {double{1e-17f}, double{1e15f}}) { // 10'000 squares of it are between 1e-34 and 1e34
            auto optimizer = rule->on(float_element(), backend::simd);
            runs::tensor x(optimizer, 10'000, 1);
            x.weight.fill(size);
            x.set_gradient(size);
            optimizer.next_step(options)(x);
            auto const weight = x.weight.values();
            CHECK(std::ranges::all_of(weight, [=](double w) { return std::isfinite(w) && w <= size; }));
            auto const& slots = optimizer.format().slots;
            for (std::size_t i = 0; i < slots.size(); ++i) {
                auto const values = x.state[i].values();
                bool const may_be_0 = std::ranges::count(rule->differences, slots[i].name) != 0;
                CHECK(std::ranges::all_of(
                    values, [=](double s) { return std::isnormal(static_cast<float>(s)) || (may_be_0 && s == 0); }));
            }
        }
    }
}

TEST_CASE("a tensor of no elements keeps the state of a row-wise rule", "[row_wise]") {
    for (runs::rule const* rule : runs::row_wise_rules()) {
        CAPTURE(rule->description());
        auto optimizer = rule->on(float_element(), backend::simd);
        runs::tensor x(optimizer, 0);
        runs::tensor const untouched(optimizer, 0);
        x.train(optimizer, steps, options);
        CHECK(difference(x, untouched) == "");
    }
}

TEST_CASE("a NaN in a gradient is no reason to go on with another ratio", "[row_wise]") {
    for (runs::rule const* rule : runs::row_wise_rules()) {
        if (rule->model_wise) continue; // the clock keeps its numbers: test/rules/model_wise.cpp
        CAPTURE(rule->description());
        auto optimizer = rule->on(float_element(), backend::simd);
        runs::tensor x(optimizer, 99, 1);
        x.set_gradient(1.0);
        x.gradient.set(7, std::numeric_limits<double>::quiet_NaN());
        optimizer.next_step(options)(x);
        auto const weight = x.weight.values();
        CHECK(std::ranges::all_of(weight, [](double w) { return std::isnan(w); }));
    }
}
