// Elements, backends and regularizers: the full product for float, pairs for the other elements.
#include <support/catch.hpp>
#include <support/regularizers.hpp>
#include <support/tensors.hpp>

#include <cmath>
#include <limits>

namespace {

constexpr std::size_t n = 100'003; // traffic that is worth threads

template <class Line> Line line_of() { return std::get<Line>(regularizers()); }

template <class Element, class Regularizer, class Backend> auto make(Regularizer regularizer, Backend backend) {
    return gs::make_updater<Element>(gs::sgd{}, regularizer, gs::constant{0.1}, backend);
}

template <class Updater> auto trained(Updater optimizer, int steps, std::size_t offset) {
    tensor x(optimizer, n, offset);
    x.train(optimizer, steps);
    return x;
}

template <class Element, class Regularizer, class Backend>
std::string difference_to_serial(Regularizer const& regularizer, Backend const& backend) {
    auto const reference = trained(make<Element>(regularizer, gs::serial_backend{}), 2, 0);
    return difference(trained(make<Element>(regularizer, backend), 2, 1), reference);
}

} // namespace

TEMPLATE_LIST_TEST_CASE("float under a regularizer: one formula, the same bits on every backend", "[regularizers]",
                        all_regularizers) {
    auto const line = line_of<TestType>();
    auto const serial = make<float>(line.regularizer, gs::serial_backend{});
    CAPTURE(serial.description());
    gs::thread_pool pool(3);
    auto const reference = trained(serial, 3, 0);
    CHECK(difference(trained(make<float>(line.regularizer, gs::simd_backend{}), 3, 1), reference) == "");
    CHECK(difference(trained(make<float>(line.regularizer, gs::simd_backend{pool}), 3, 2), reference) == "");

    // The value. Each coefficient, product, sum and the result round once: ten roundings at most (elastic_net has
    // nine), and none is of more than all the terms together.
    auto const once = trained(serial, 1, 0);
    tensor const before(serial, n);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
        long double const rate = 0.1, w = before.weight[i], g = once.gradient[i];
        long double const terms = std::abs(w) + rate * (std::abs(g) + 0.5L * std::abs(w) + 0.25L);
        long double const u = std::numeric_limits<float>::epsilon() / 2;
        wrong += !(std::abs(once.weight[i] - line.step(w, g, rate)) <= 10 * u * terms);
    }
    CHECK(wrong == 0);
}

TEMPLATE_LIST_TEST_CASE("no regularizer hides a NaN, whatever the pack", "[regularizers]", all_regularizers) {
    auto const line = line_of<TestType>();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    auto simd = make<float>(line.regularizer, gs::simd_backend{});
    auto serial = make<float>(line.regularizer, gs::serial_backend{});
    CAPTURE(simd.description());
    tensor x(simd, 99, 1);
    tensor y(serial, 99);
    auto const spoiled_step = [=](auto& tensor, auto& optimizer) {
        auto const step = optimizer.next_step();
        tensor.set_gradient(step.number());
        for (unsigned const i : {0u, 37u, 97u, 98u}) tensor.gradient[i] = nan;
        for (unsigned const i : {5u, 96u}) tensor.weight[i] = nan;
        tensor.gradient[40] = infinity;
        tensor.take(step);
    };
    spoiled_step(x, simd);
    spoiled_step(y, serial);
    CHECK(difference(x, y) == "");
    for (std::size_t i = 0; i < 99; ++i) {
        bool const spoiled = i == 0 || i == 5 || i == 37 || i >= 96;
        CHECK(std::isnan(x.weight[i]) == spoiled);
    }
}

TEMPLATE_LIST_TEST_CASE("decay = false has the bits of an updater without the decay", "[regularizers]",
                        all_regularizers) {
    auto const line = line_of<TestType>();
    auto decayed = make<float>(line.regularizer, gs::serial_backend{});
    auto bare = make<float>(line.bare, gs::serial_backend{});
    CAPTURE(decayed.description());
    tensor x(decayed, 999, 1), with(decayed, 999, 2);
    tensor expected_with(decayed, 999);
    tensor expected(bare, 999);
    std::vector<gs::slice<decltype(decayed)>> model{x.slice(), with.slice()};
    model[0].decay = false;
    for (int k = 0; k < 3; ++k) {
        auto const step = decayed.next_step();
        for (auto* t : {&x, &with, &expected_with}) t->set_gradient(step.number());
        step(model);
        expected_with.take(step);
    }
    expected.train(bare, 3);
    CHECK(difference(x, expected) == "");
    CHECK(difference(with, expected_with) == "");
}

TEST_CASE("other elements equal serial: each with each regularizer, each with and without threads", "[regularizers]") {
    // Joined, so that three updaters meet every regularizer.
    gs::elastic_net const both{.l1 = 0.25, .l2 = 0.5};
    gs::all_of const coupled{gs::l1{0.25}, gs::l2{0.5}, gs::clip_value{1}, gs::proximal{gs::l1{0.25}}};
    gs::all_of const decayed{gs::decoupled{0.5}, both, gs::proximal{both}};
    gs::proximal const shrunk{gs::l2{0.5}};
    gs::thread_pool pool(3);
    gs::simd_backend const alone;
    gs::simd_backend const threads(pool);

    CHECK(difference_to_serial<double>(coupled, alone) == "");
    CHECK(difference_to_serial<double>(decayed, threads) == "");
    CHECK(difference_to_serial<double>(shrunk, alone) == "");
    CHECK(difference_to_serial<gs::bfloat16>(coupled, threads) == "");
    CHECK(difference_to_serial<gs::bfloat16>(decayed, alone) == "");
    CHECK(difference_to_serial<gs::bfloat16>(shrunk, threads) == "");
    CHECK(difference_to_serial<gs::mixed<gs::bfloat16>>(coupled, alone) == "");
    CHECK(difference_to_serial<gs::mixed<gs::bfloat16>>(decayed, threads) == "");
    CHECK(difference_to_serial<gs::mixed<gs::bfloat16>>(shrunk, alone) == "");
}

TEST_CASE("proximal stops at zero, and what it has stopped stays there", "[regularizers]") {
    auto optimizer = make<float>(gs::proximal{gs::l1{0.5}}, gs::simd_backend{});
    std::vector<float> w{0.3f, -0.3f, 0.02f, 0.0f, 5.0f}, g(5);
    for (int k = 0; k < 10; ++k) optimizer.next_step()(w, g); // 0.05 a step
    for (std::size_t i = 0; i < 4; ++i) CHECK(w[i] == 0);
    CHECK(w[4] == Approx(4.5));
}
