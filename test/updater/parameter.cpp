// A parameter that owns values, state and clock.
#include <gradstep/gradstep.hpp>

#include <array>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

template <class T> std::vector<T> copy(std::span<T const> x) { return {x.begin(), x.end()}; }

} // namespace

TEST_CASE("a parameter is the updater on memory of its own", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::poly{.rate = 0.5, .a = 1, .b = 1});
    optimizer.seek({.step = 40}); // a parameter starts at 0, whatever the updater's clock is
    auto const initial = numbers<float>(101, 1), gradient = numbers<float>(101, 2);
    gs::parameter weights{optimizer, initial};
    CHECK(weights.size() == 101);
    CHECK(weights.clock() == gs::clock{});
    CHECK(same_bits(copy(weights.values()), initial));

    std::vector<float> w = initial, m(101), v(101);
    optimizer.seek({});
    for (int i = 0; i < 3; ++i) {
        weights.update(gradient, {.rate_scale = 0.5, .samples = 10});
        optimizer.next_step({.rate_scale = 0.5, .samples = 10})(w, gradient, m, v);
    }
    CHECK(same_bits(copy(weights.values()), w));
    CHECK(same_bits(copy(weights.state<"m">()), m));
    CHECK(same_bits(copy(weights.state<"v">()), v));
    CHECK(weights.state("v").data() == weights.state<"v">().data());
    CHECK(weights.clock() == gs::clock{.step = 3, .samples = 30});

    std::vector<float> host(101);
    weights.copy_to(host);
    CHECK(same_bits(host, w));
}

TEST_CASE("a parameter starts its slots as initialize does", "[core]") {
    gs::parameter const sum{gs::make_updater<float>(gs::adagrad{.initial_accumulator = 0.25}, gs::constant{1}),
                            numbers<float>(9, 1)};
    CHECK(copy(sum.state<"n">()) == std::vector<float>(9, 0.25f));

    auto const half = numbers<gs::bfloat16>(9, 1);
    gs::parameter const mixed{gs::make_updater<gs::mixed<gs::bfloat16>>(gs::sgd{}, gs::constant{1}), half};
    for (std::size_t i = 0; i < 9; ++i) CHECK(mixed.state<"master">()[i] == static_cast<float>(half[i]));
}

TEST_CASE("a copied parameter is another parameter", "[core]") {
    gs::parameter a{gs::make_updater<float>(gs::momentum{}, gs::constant{1}), numbers<float>(9, 1)};
    gs::parameter b = a;
    a.update(numbers<float>(9, 2));
    CHECK(same_bits(copy(b.values()), numbers<float>(9, 1)));
    CHECK(b.clock().step == 0);
    b.update(numbers<float>(9, 2));
    CHECK(same_bits(copy(a.values()), copy(b.values())));
}

TEST_CASE("a parameter takes any contiguous initial values, and none", "[core]") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1});
    gs::parameter from_array{optimizer, std::array{1.0f, 2.0f}};
    CHECK(copy(from_array.values()) == std::vector{1.0f, 2.0f});
    gs::parameter from_span{optimizer, std::span<float const>(from_array.values())};
    CHECK(copy(from_span.values()) == std::vector{1.0f, 2.0f});

    gs::parameter empty{optimizer, std::vector<float>{}};
    CHECK_NOTHROW(empty.update(std::vector<float>{}));
    CHECK(empty.clock().step == 1);
    CHECK(empty.values().empty());
}

TEST_CASE("a parameter without state slots", "[core]") {
    gs::parameter weights{gs::make_updater<float>(gs::sgd{}, gs::constant{1}), std::vector{3.0f}};
    weights.update(std::vector{1.0f});
    CHECK(weights.values()[0] == 2);
    CHECK(refusal<gs::value_error>([&] { weights.state("m"); }) ==
          "state(\"m\"): no such slot; expected a slot of the rule, which has none");
}

TEST_CASE("an update that is refused leaves bits and clock", "[core]") {
    gs::parameter weights{gs::make_updater<float>(gs::adam{}, gs::decoupled{1}, gs::constant{0.5}),
                          numbers<float>(20, 1)};
    weights.update(numbers<float>(20, 2), {.samples = 4});
    auto const w = copy(weights.values()), m = copy(weights.state<"m">()), v = copy(weights.state<"v">());
    gs::clock const stands = weights.clock();
    auto const unmoved = [&] {
        return same_bits(copy(weights.values()), w) && same_bits(copy(weights.state<"m">()), m) &&
               same_bits(copy(weights.state<"v">()), v) && weights.clock() == stands;
    };
    CHECK_THAT(refusal<gs::size_error>([&] { weights.update(numbers<float>(19, 2)); }),
               Catch::Matchers::StartsWith("gradient: has 19 elements, parameter has 20"));
    CHECK(unmoved());
    refusal<gs::value_error>([&] { weights.update(numbers<float>(20, 2), {.rate_scale = 2, .samples = 9}); });
    CHECK(unmoved());
    refusal<gs::buffer_error>([&] { weights.update(weights.values(), {.samples = 9}); });
    CHECK(unmoved());
    refusal<gs::buffer_error>([&] { weights.update(std::span(static_cast<float*>(nullptr), 20)); });
    CHECK(unmoved());
    std::vector<float> const read_only = numbers<float>(20, 2);
    refusal<gs::buffer_error>([&] { weights.update(read_only, {.zero_gradient = true}); });
    CHECK(unmoved());
}

TEST_CASE("an update whose executor fails counts as begun", "[core]") {
    // With an error of the host's own, and with one that another updater would refuse a step by.
    auto const failure = GENERATE(
        as<std::function<void()>>(), [] { throw std::runtime_error("the pool is closed"); },
        [] { throw gs::value_error("the pool is closed"); });
    bool broken = false;
    gs::callback_executor host(2, [&](std::size_t parts, gs::task work) {
        work(0);
        if (broken) failure();
        for (std::size_t part = 1; part < parts; ++part) work(part);
    });
    std::size_t const n = 200'000;
    gs::parameter weights{gs::make_updater<float>(gs::sgd{}, gs::constant{1}, gs::simd_backend{host}),
                          std::vector<float>(n)};
    broken = true;
    CHECK_THROWS_WITH(weights.update(std::vector<float>(n, 1)), "the pool is closed");
    CHECK(weights.clock().step == 1);
    CHECK(weights.values().front() == -1);
    CHECK(weights.values().back() == 0);
}

TEST_CASE("bad names, sizes and initial values are refused", "[core]") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1});
    gs::parameter const weights{optimizer, numbers<float>(5, 1)};
    CHECK(refusal<gs::value_error>([&] { weights.state("q"); }) == "state(\"q\"): no such slot; expected one of m, v");
    std::vector<float> small(4, 9);
    CHECK(refusal<gs::size_error>([&] { weights.copy_to(small); }) == "copy_to: the buffer has 4 elements; expected 5");
    CHECK(small == std::vector<float>(4, 9));
    CHECK(refusal<gs::buffer_error>([&] {
              gs::parameter p{optimizer, std::span<float>(static_cast<float*>(nullptr), 3)};
          }) == "initial: is null; expected 3 elements of memory");
}

TEST_CASE("a step may say which epoch it is of", "[parameter]") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::by_epochs{gs::linear{1, 0.5, 0}});
    gs::parameter weight{optimizer, std::vector<float>{0}};
    std::vector<float> const gradient{1};
    weight.update(gradient);
    CHECK(weight.values()[0] == -1);
    weight.update(gradient, {.epoch = 1});
    CHECK(weight.values()[0] == -1.5f);
    weight.update(gradient); // it stays
    CHECK(weight.values()[0] == -2);
    CHECK(weight.clock() == gs::clock{.step = 3, .samples = 0, .epoch = 1});
    CHECK(refusal<gs::value_error>([&] { weight.update(gradient, {.epoch = -1}); }) ==
          "step_options.epoch: -1 is out of range; expected >= 0");
    CHECK(weight.clock().epoch == 1);
}
