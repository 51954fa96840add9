// What every row-wise rule does at the lengths at which its sums change their shape, and with numbers near the ends of
// their type. The formulas are held by properties/oracle.cpp, the first steps by the file of each rule.
#include <support/catch.hpp>
#include <support/registry.hpp>
#include <support/tensors.hpp>

#include <algorithm>
#include <cmath>

namespace {

constexpr gs::constant schedule{0.05};
constexpr int steps = 3;

template <class Element, class Rule, class Backend>
std::string difference_to_serial(Rule const& rule, Backend const& backend, std::size_t n) {
    auto serial = gs::make_updater<Element>(rule, schedule, gs::serial_backend{});
    auto other = gs::make_updater<Element>(rule, schedule, backend);
    tensor expected(serial, n);
    expected.train(serial, steps);
    tensor x(other, n, n % 5);
    x.train(other, steps);
    return difference(x, expected);
}

} // namespace

TEMPLATE_LIST_TEST_CASE("a row-wise rule has the same bits on every backend, around columns, blocks and threads",
                        "[row_wise]", registered_row_wise) {
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        for (std::size_t const n : {1u, 31u, 32u, 33u, 63u, 65u, 4095u, 4096u, 4097u, 4127u, 4129u, 8192u, 10'000u}) {
            CAPTURE(n);
            CHECK(difference_to_serial<float>(rule, gs::simd_backend{}, n) == "");
            CHECK(difference_to_serial<double>(rule, gs::simd_backend{}, n) == "");
            CHECK(difference_to_serial<gs::mixed<gs::bfloat16>>(rule, gs::simd_backend{}, n) == "");
        }
        for (unsigned const threads : {1u, 2u, 3u}) {
            gs::thread_pool pool(threads);
            for (std::size_t const n : {49 * 4096u, 49 * 4096u + 1, 200'007u}) // worth three threads
                CHECK(difference_to_serial<float>(rule, gs::simd_backend{pool}, n) == "");
        }
    }
}

TEMPLATE_LIST_TEST_CASE("the squares of a row-wise rule may be of any size that is normal", "[row_wise]",
                        registered_row_wise) {
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        for (float const size : {1e-17f, 1e15f}) { // 10'000 squares of it are between 1e-34 and 1e34
            auto optimizer = gs::make_updater<float>(rule, schedule);
            tensor x(optimizer, 10'000, 1);
            for (float& w : x.weight.span()) w = size;
            x.set_gradient(static_cast<double>(size));
            x.take(optimizer.next_step());
            CHECK(std::ranges::all_of(x.weight.span(), [=](float w) { return std::isfinite(w) && w <= size; }));
            for (auto const& slot : x.state)
                CHECK(std::ranges::all_of(slot.span(), [](float s) { return std::isnormal(s); }));
        }
    }
}

TEMPLATE_LIST_TEST_CASE("a tensor of no elements keeps the state of a row-wise rule", "[row_wise]",
                        registered_row_wise) {
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto optimizer = gs::make_updater<float>(rule, schedule);
        tensor x(optimizer, 0);
        tensor const untouched(optimizer, 0);
        x.train(optimizer, steps);
        CHECK(difference(x, untouched) == "");
    }
}

TEMPLATE_LIST_TEST_CASE("a NaN in a gradient is no reason to go on with another ratio", "[row_wise]",
                        registered_row_wise) {
    for (auto const& rule : settings_of<TestType>()) {
        CAPTURE(gs::describe(rule));
        auto optimizer = gs::make_updater<float>(rule, schedule);
        tensor x(optimizer, 99, 1);
        x.set_gradient(1.0);
        x.gradient[7] = NAN;
        x.take(optimizer.next_step());
        CHECK(std::ranges::all_of(x.weight.span(), [](float w) { return std::isnan(w); }));
    }
}
