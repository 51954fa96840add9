// step.difference: the change of each weight, and a state that advances as in the step in place.
#include <gradstep/gradstep.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

// A gradient without memory: every element is 1 / 8.
struct eighths {
    std::size_t count;
};
struct eighths_reader {
    template <class V> V load(std::size_t, gs::all_lanes) const { return V(0.125f); }
};

} // namespace

template <> struct gradstep::buffer_traits<eighths> {
    using memory_space = host_memory;
    static std::size_t size(eighths const& x) { return x.count; }
    template <class W> static eighths_reader reader(eighths const&, W const&) { return {}; }
};

namespace {

// Weights in [2, 6), of which no step here changes one by more than its half, so that
// w + difference is exact. Three steps in place and three by the difference, over n elements.
template <class Optimizer> void check_bits(Optimizer in_place, std::size_t n, gs::step_options const& options = {}) {
    using storage = typename Optimizer::traits::storage;
    using compute = typename Optimizer::traits::compute;
    using state = typename Optimizer::traits::state;
    Optimizer by_difference = in_place;
    auto expected = numbers<storage>(n, 1);
    for (storage& x : expected) x = storage(compute(x) + 4);
    std::vector<storage> weight = expected, g = numbers<storage>(n, 2), out(n);
    std::array<std::vector<state>, Optimizer::slots> slots;
    for (std::size_t i = 0; i != slots.size(); ++i) slots[i].resize(Optimizer::slot_size(i, n));
    std::apply([&](auto&... x) { in_place.initialize(expected, x...); }, slots);
    auto expected_slots = slots;
    for (int t = 0; t < 3; ++t) {
        auto const before = weight;
        std::apply([&](auto&... x) { in_place.next_step(options)(expected, g, x...); }, expected_slots);
        std::apply(
            [&](auto&... x) { by_difference.next_step(options).difference(out, std::as_const(weight), g, x...); },
            slots);
        CHECK(same_bits(weight, before));
        for (std::size_t i = 0; i < n; ++i) weight[i] = storage(compute(weight[i]) + compute(out[i]));
        CHECK(same_bits(weight, expected));
        for (std::size_t i = 0; i != slots.size(); ++i) CHECK(same_bits(slots[i], expected_slots[i]));
    }
}

} // namespace

TEST_CASE("the weight and the difference add up to the step in place", "[difference]") {
    gs::constant const rate{0.125};
    SECTION("elementwise, on either backend, with options of the step") {
        auto const by_default = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, rate);
        for (std::size_t n : {0u, 1u, 3u, 32u, 1003u}) check_bits(by_default, n);
        check_bits(by_default, 1003, {.gradient_scale = 0.5});
        check_bits(gs::make_updater<float>(gs::adam{}, gs::decoupled{0.5}, rate, gs::serial_backend{}), 100);
    }
    SECTION("more memory than caches hold, on threads") {
        gs::thread_pool pool(2);
        check_bits(gs::make_updater<float>(gs::momentum{}, rate, gs::simd_backend{pool}), (std::size_t{4} << 20) + 5);
    }
    SECTION("16-bit weights, with a master copy or with stochastic rounding") {
        check_bits(gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, rate), 77);
        check_bits(gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::momentum{}, rate), 77);
    }
    SECTION("a row-wise rule, and regularizers that act after the step") {
        check_bits(gs::make_updater<float>(gs::lars{}, gs::proximal{gs::l1{0.5}}, rate), 9001);
    }
}

TEST_CASE("the difference takes the options of a slice, and gradients without memory", "[difference]") {
    auto optimizer = gs::make_updater<float>(gs::momentum{.mu = 0.5}, gs::l2{0.5}, gs::constant{0.25});
    std::vector<float> const w(37, 4.0f);
    std::vector<float> g(37, 0.125f), m(37, 1.0f), out(37);
    auto const all_are = [](std::vector<float> const& x, float number) {
        return same_bits(x, std::vector<float>(x.size(), number));
    };
    optimizer.next_step().difference(out, w, eighths{37}, m); // m = 0.5 + 0.125 + 0.5 * 4
    CHECK((all_are(m, 2.625f) && all_are(out, -0.65625f)));

    std::vector<float> there = w;
    gs::slice<decltype(optimizer)> x{there, g, m};
    x.rate_scale = 2;
    x.decay = 0;
    optimizer.next_step().difference(out, x); // m = 1.3125 + 0.125, at a rate of 0.5
    CHECK((all_are(m, 1.4375f) && all_are(out, -0.71875f) && there == w));

    std::vector<gs::bfloat16> copy(37);
    x.bfloat16_copy = copy;
    CHECK(refusal<gs::value_error>([&] { optimizer.next_step().difference(out, x); }) ==
          "slice.bfloat16_copy: is set, and step.difference leaves the parameter as it is; expected empty");
}

TEST_CASE("memory that the difference cannot use is refused before anything is written", "[difference]") {
    auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{0.25});
    std::vector<float> memory(48, 1.0f);
    std::vector<float> const before = memory;
    auto const part = [&](std::size_t k) { return std::span(memory).subspan(8 * k, 8); };
    auto const refused = [&]<class Error>(std::type_identity<Error>, std::span<float> out, std::span<float> slot) {
        auto const text = refusal<Error>([&] { optimizer.next_step().difference(out, part(0), part(1), slot); });
        CHECK(same_bits(memory, before));
        return text;
    };
    std::type_identity<gs::buffer_error> const buffer_error;
    std::type_identity<gs::size_error> const size_error;
    std::string const separate = "; expected separate memory for each buffer";
    CHECK(refused(buffer_error, part(0), part(2)) == "the difference: overlaps parameter" + separate);
    CHECK(refused(buffer_error, part(1), part(2)) == "the difference: overlaps gradient" + separate);
    CHECK(refused(buffer_error, std::span(memory).subspan(20, 8), part(2)) == "the difference: overlaps m" + separate);
    CHECK(refused(buffer_error, {static_cast<float*>(nullptr), 8}, part(2)) ==
          "the difference: is null; expected 8 elements of memory");
    CHECK(refused(size_error, std::span(memory).subspan(40, 7), part(2)) ==
          "the difference: has 7 elements, parameter has 8; expected the same length for all buffers of a tensor");
    CHECK(refused(size_error, part(3), std::span(memory).subspan(40, 7)) ==
          "m: has 7 elements, parameter has 8; expected the same length for all buffers of a tensor");
}
