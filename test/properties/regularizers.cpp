// Elements, backends and regularizers: the full product for float, pairs for the other elements.
#include <support/catch.hpp>
#include <support/erased.hpp>
#include <support/regularizers.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

constexpr std::size_t n = 100'003; // traffic that is worth threads

template <class Line> Line line_of() { return std::get<Line>(regularizers()); }

template <class Element, class Regularizer, class Backend> auto make(Regularizer regularizer, Backend backend) {
    return gs::make_updater<Element>(gs::sgd{}, regularizer, gs::constant{0.1}, backend);
}

// sgd under a regularizer on the serial backend, and on one whose executor is chosen when the
// program runs.
struct pair_of_optimizers {
    runs::executor executor;
    runs::optimizer serial, simd;

    template <class Element, class Regularizer>
    pair_of_optimizers(std::type_identity<Element>, Regularizer const& regularizer)
        : serial(runs::erased(make<Element>(regularizer, gs::serial_backend{}))),
          simd(runs::erased(make<Element>(regularizer, gs::simd_backend{executor}))) {}
    pair_of_optimizers(pair_of_optimizers const&) = delete; // simd refers to the executor
};
template <class Element> constexpr std::type_identity<Element> of;

runs::tensor trained(runs::optimizer optimizer, int steps, std::size_t offset) {
    runs::tensor x(optimizer, n, offset);
    x.train(optimizer, steps, {});
    return x;
}

// "" if simd gives the bits of serial alone and on three threads.
std::string difference_to_serial(pair_of_optimizers& optimizers) {
    auto const reference = trained(optimizers.serial, 3, 0);
    std::string const alone = difference(trained(optimizers.simd, 3, 1), reference);
    if (!alone.empty()) return alone;
    gs::thread_pool pool(3);
    optimizers.executor = runs::executor(pool);
    std::string const on_threads = difference(trained(optimizers.simd, 3, 2), reference);
    optimizers.executor = {};
    return on_threads;
}
template <class Element, class Regularizer> std::string difference_to_serial(Regularizer const& regularizer) {
    pair_of_optimizers optimizers(of<Element>, regularizer);
    return difference_to_serial(optimizers);
}

} // namespace

TEMPLATE_LIST_TEST_CASE("float under a regularizer: one formula, the same bits on every backend", "[regularizers]",
                        all_regularizers) {
    auto const line = line_of<TestType>();
    pair_of_optimizers optimizers(of<float>, line.regularizer);
    CAPTURE(gs::describe(line.regularizer));
    CHECK(difference_to_serial(optimizers) == "");

    // The value. Each coefficient, product, sum and the result round once: ten roundings at most
    // (elastic_net has nine), and none is of more than all the terms together.
    auto const once = trained(optimizers.serial, 1, 0);
    runs::tensor const before(optimizers.serial, n);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
        long double const rate = 0.1, w = before.weight.get(i), g = once.gradient.get(i);
        long double const terms = std::abs(w) + rate * (std::abs(g) + 0.5L * std::abs(w) + 0.25L);
        long double const u = std::numeric_limits<float>::epsilon() / 2;
        wrong += !(std::abs(once.weight.get(i) - line.step(w, g, rate)) <= 10 * u * terms);
    }
    CHECK(wrong == 0);

    // No regularizer hides a NaN, whatever the pack.
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    runs::tensor x(optimizers.simd, 99, 1), y(optimizers.serial, 99);
    auto const spoiled_step = [=](runs::tensor& of, runs::optimizer& by) {
        auto const step = by.next_step();
        of.set_gradient(step.number());
        for (unsigned const i : {0u, 37u, 97u, 98u}) of.gradient.set(i, nan);
        for (unsigned const i : {5u, 96u}) of.weight.set(i, nan);
        of.gradient.set(40, infinity);
        step(of);
    };
    spoiled_step(x, optimizers.simd);
    spoiled_step(y, optimizers.serial);
    CHECK(difference(x, y) == "");
    for (std::size_t i = 0; i < 99; ++i) {
        bool const spoiled = i == 0 || i == 5 || i == 37 || i >= 96;
        CHECK(std::isnan(x.weight.get(i)) == spoiled);
    }
}

TEMPLATE_LIST_TEST_CASE("decay = false has the bits of an updater without the decay", "[regularizers]",
                        all_regularizers) {
    auto const line = line_of<TestType>();
    auto decayed = runs::erased<runs::calls::both>(make<float>(line.regularizer, gs::serial_backend{}));
    auto bare = runs::erased(make<float>(line.bare, gs::serial_backend{}));
    CAPTURE(gs::describe(line.regularizer));
    runs::tensor x(decayed, 999, 1), with(decayed, 999, 2), expected_with(decayed, 999), expected(bare, 999);
    std::vector<runs::view> model{x.view(), with.view()};
    model[0].decay = false;
    for (int k = 0; k < 3; ++k) {
        auto const step = decayed.next_step();
        for (auto* t : {&x, &with, &expected_with}) t->set_gradient(step.number());
        step(model);
        step(expected_with);
    }
    expected.train(bare, 3, {});
    CHECK(difference(x, expected) == "");
    CHECK(difference(with, expected_with) == "");
}

TEMPLATE_TEST_CASE("other elements equal serial under every regularizer, with and without threads", "[regularizers]",
                   double, gs::bfloat16, gs::mixed<gs::bfloat16>) {
    // Joined, so that three updaters meet every regularizer.
    gs::elastic_net const both{.l1 = 0.25, .l2 = 0.5};
    gs::all_of const coupled{gs::l1{0.25}, gs::l2{0.5}, gs::clip_value{1}, gs::proximal{gs::l1{0.25}}};
    CHECK(difference_to_serial<TestType>(coupled) == "");
    CHECK(difference_to_serial<TestType>(gs::all_of{gs::decoupled{0.5}, both, gs::proximal{both}}) == "");
    CHECK(difference_to_serial<TestType>(gs::proximal{gs::l2{0.5}}) == "");
}

TEST_CASE("proximal stops at zero, and what it has stopped stays there", "[regularizers]") {
    auto optimizer = make<float>(gs::proximal{gs::l1{0.5}}, gs::simd_backend{});
    std::vector<float> w{0.3f, -0.3f, 0.02f, 0.0f, 5.0f}, g(5);
    for (int k = 0; k < 10; ++k) optimizer.next_step()(w, g); // 0.05 a step
    for (std::size_t i = 0; i < 4; ++i) CHECK(w[i] == 0);
    CHECK(w[4] == Approx(4.5));
}
