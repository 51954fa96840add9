// Gradients that are not finite: where they are, and what parameters and zero_nonfinite do about
// them.
#include <gradstep/gradstep.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/thread_counts.hpp"

namespace gs = gradstep;

namespace {

template <class T> T stored(float x) { return T(x); }
constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class T> std::vector<T> copy(std::span<T const> x) { return {x.begin(), x.end()}; }

struct lazy_ones {
    std::size_t n;
};
struct lazy_ones_reader {
    template <class V> V load(std::size_t, gs::all_lanes) const { return V(1); }
};

} // namespace

template <> struct gs::buffer_traits<lazy_ones> {
    using memory_space = gs::host_memory;
    static std::size_t size(lazy_ones const& x) { return x.n; }
    template <class W> static lazy_ones_reader reader(lazy_ones const&, W const&) { return {}; }
};

TEMPLATE_TEST_CASE("first_nonfinite finds each place, in any length and alignment", "[core][nonfinite]", float, double,
                   gs::bfloat16, gs::float16) {
    auto const check = [](auto const& backend) {
        std::size_t wrong = 0;
        std::vector<TestType> memory = numbers<TestType>(200, 1);
        for (std::size_t offset : {0u, 1u, 3u})
            for (std::size_t n = 0; n < 70; ++n) {
                std::span<TestType> const x = std::span(memory).subspan(offset, n);
                wrong += gs::first_nonfinite(backend, x).has_value();
                for (std::size_t at = 0; at < n; ++at)
                    for (float const bad : {not_a_number, -not_a_number, infinity, -infinity}) {
                        TestType const before = x[at];
                        x[at] = stored<TestType>(bad);
                        wrong += gs::first_nonfinite(backend, x) != gs::nonfinite_element{0, at};
                        x[at] = before;
                    }
                // What lies beside is not looked at.
                memory[offset + n] = stored<TestType>(not_a_number);
                wrong += gs::first_nonfinite(backend, x).has_value();
                memory[offset + n] = stored<TestType>(1);
            }
        CHECK(wrong == 0);
    };
    check(gs::serial_backend{});
    check(gs::simd_backend{});
}

TEMPLATE_TEST_CASE("the largest and the smallest numbers are finite", "[core][nonfinite]", float, double, gs::bfloat16,
                   gs::float16) {
    std::vector<TestType> x(40);
    if constexpr (std::is_floating_point_v<TestType>) {
        using limits = std::numeric_limits<TestType>;
        for (auto const number : {limits::max(), limits::lowest(), limits::min(), limits::denorm_min(), TestType(-0.0)})
            x.push_back(number);
    } else {
        for (unsigned const bits : {1u, 0x8001u, 0x8000u}) {
            x.emplace_back();
            x.back().bits = static_cast<std::uint16_t>(bits);
        }
        TestType largest = stored<TestType>(infinity);
        --largest.bits;
        x.push_back(largest);
    }
    CHECK(!gs::first_nonfinite(gs::simd_backend{}, x));
    CHECK(!gs::first_nonfinite(gs::serial_backend{}, x));
}

TEST_CASE("first_nonfinite is the first, whatever the threads", "[core][nonfinite][threads]") {
    std::size_t const n = 1'000'003;
    auto x = numbers<float>(n, 3);
    for (std::size_t const at :
         {n - 1, std::size_t(999'000), std::size_t(500'001), std::size_t(4096), std::size_t(4095)}) {
        x[at] = at % 2 ? not_a_number : -infinity;
        CHECK(gs::first_nonfinite(gs::serial_backend{}, x) == gs::nonfinite_element{0, at});
        for (std::size_t const threads : thread_counts({1, 2, 3})) {
            gs::thread_pool pool(threads);
            CHECK(gs::first_nonfinite(gs::simd_backend{pool}, x) == gs::nonfinite_element{0, at});
        }
    }
}

TEST_CASE("first_nonfinite counts the tensors of a range and of slices", "[core][nonfinite]") {
    std::vector<std::vector<float>> gradients{numbers<float>(5, 1), {}, numbers<float>(100, 2), numbers<float>(3, 3)};
    gs::simd_backend<> const backend;
    CHECK(!gs::first_nonfinite(backend, gradients));
    gradients[3][0] = not_a_number;
    CHECK(gs::first_nonfinite(backend, gradients) == gs::nonfinite_element{3, 0});
    gradients[2][99] = infinity;
    gradients[2][98] = -infinity;
    CHECK(gs::first_nonfinite(backend, gradients) == gs::nonfinite_element{2, 98});

    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    std::vector<std::vector<float>> weights;
    std::vector<gs::slice<decltype(optimizer)>> model;
    for (auto const& g : gradients) weights.emplace_back(g.size());
    for (std::size_t k = 0; k < gradients.size(); ++k) model.emplace_back(weights[k], gradients[k]);
    CHECK(gs::first_nonfinite(backend, model) == gs::nonfinite_element{2, 98});
    CHECK(gs::first_nonfinite(optimizer.backend(), std::span(model).last(1)) == gs::nonfinite_element{0, 0});
    CHECK(!gs::first_nonfinite(backend, std::vector<std::vector<float>>{}));

    std::vector<double> const finite(4, 1.0);
    CHECK(gs::first_nonfinite(backend, finite, gradients) == gs::nonfinite_element{3, 98});
    CHECK(gs::first_nonfinite(backend, gradients, finite) == gs::nonfinite_element{2, 98});
    CHECK(!gs::first_nonfinite(backend, finite, finite));

    CHECK(refusal<gs::buffer_error>([&] {
              gs::first_nonfinite(backend, std::span(static_cast<float*>(nullptr), 3));
          }) == "gradient: is null; expected 3 elements of memory");
}

TEST_CASE("zero_nonfinite takes for 0 what is not finite, and for itself what is", "[core][nonfinite]") {
    auto const check = [](auto const& backend) {
        auto guarded = gs::make_updater<float>(gs::adam{}, gs::zero_nonfinite{}, gs::constant{0.125}, backend);
        auto plain = gs::make_updater<float>(gs::adam{}, gs::constant{0.125}, backend);
        tensor a(37), b(37);
        for (std::size_t i = 0; i < 37; i += 3) {
            a.g[i] = std::array{not_a_number, infinity, -infinity, -not_a_number}[i / 3 % 4];
            b.g[i] = 0;
        }
        a.g[1] = b.g[1] = std::numeric_limits<float>::max();
        guarded.next_step()(a.w, a.g, a.m, a.v);
        plain.next_step()(b.w, b.g, b.m, b.v);
        CHECK((same_bits(a.w, b.w) && same_bits(a.m, b.m) && same_bits(a.v, b.v)));
    };
    check(gs::serial_backend{});
    check(gs::simd_backend{});
}

TEST_CASE("zero_nonfinite acts where it stands in all_of", "[core][nonfinite]") {
    std::vector<float> const g{not_a_number, infinity, 4, 1e38f};
    auto const run = [&](auto const& regularizer, gs::step_options const& options = {}) {
        auto optimizer = gs::make_updater<float>(gs::sgd{}, regularizer, gs::constant{1});
        std::vector<float> w(g.size(), 8);
        std::vector<gs::slice<decltype(optimizer)>> model{{w, g}};
        model[0].decay = false;
        optimizer.next_step(options)(model); // it is no decay: it stays
        return w;
    };
    CHECK(run(gs::all_of{gs::zero_nonfinite{}, gs::clip_value{2}}) == std::vector<float>{8, 8, 6, 6});
    CHECK(run(gs::all_of{gs::clip_value{2}, gs::zero_nonfinite{}}) ==
          std::vector<float>{8, 6, 6, 6}); // inf is clipped first
    CHECK(run(gs::all_of{gs::l2{1}, gs::zero_nonfinite{}, gs::clip_value{2}}) == std::vector<float>{8, 8, 6, 6});
    // What gradient_scale makes infinite is infinite.
    CHECK(run(gs::zero_nonfinite{}, {.gradient_scale = 1e10})[3] == 8);

    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::all_of{gs::l2{0.5}, gs::zero_nonfinite{}}, gs::constant{1});
    std::vector<float> w{8, 8, 8, 8};
    optimizer.next_step()(w, g);
    CHECK((w[0] == 8 && w[2] == 8 - 4 - 4)); // l2 added to NaN is NaN
}

TEMPLATE_TEST_CASE("a parameter leaves a step out for a gradient that is not finite, or says where",
                   "[core][nonfinite]", float, double, gs::bfloat16, gs::mixed<gs::float16>,
                   gs::stochastic<gs::bfloat16>) {
    using storage = typename gs::element_traits<TestType>::storage;
    auto const optimizer = gs::make_updater<TestType>(gs::momentum{}, gs::l2{0.5}, gs::constant{0.125});
    auto const initial = numbers<storage>(5000, 1), good = numbers<storage>(5000, 2);
    auto bad = good;
    bad[4999] = stored<storage>(infinity);
    bad[4321] = stored<storage>(not_a_number);

    gs::parameter skipping{optimizer, initial, {.on_nonfinite = gs::nonfinite::skip}};
    gs::parameter raising{optimizer, initial, {.on_nonfinite = gs::nonfinite::raise}};
    gs::parameter propagating{optimizer, initial};
    auto const same = [](auto const& a, auto const& b) {
        return same_bits(copy(a.values()), copy(b.values())) &&
               same_bits(copy(a.template state<"m">()), copy(b.template state<"m">())) && a.clock() == b.clock();
    };
    for (auto* x : {&skipping, &raising, &propagating}) {
        auto const result = x->update(good, {.samples = 3});
        CHECK(result.applied);
        CHECK(!result.nonfinite);
    }
    auto const before = propagating;
    CHECK((same(skipping, before) && same(raising, before)));

    auto const skipped = skipping.update(bad, {.samples = 3});
    CHECK(!skipped.applied);
    CHECK(skipped.nonfinite == std::optional<std::size_t>(4321));
    CHECK(same(skipping, before));

    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] { raising.update(bad, {.samples = 3}); }) ==
          "gradient[4321]: is not finite, and on_nonfinite is raise: the step is not taken");
    CHECK(same(raising, before));

    auto const applied = propagating.update(bad);
    CHECK(applied.applied);
    CHECK(!applied.nonfinite);
    CHECK(std::isnan(static_cast<double>(gs::detail::widen(propagating.values()[4321]))));
    CHECK(!std::isnan(static_cast<double>(gs::detail::widen(propagating.values()[4320]))));

    // A skipped step is as if it had not been asked for.
    auto undisturbed = before;
    skipping.update(good);
    undisturbed.update(good);
    CHECK(same(skipping, undisturbed));
}

TEST_CASE("bad options are refused where the step would be skipped, too", "[core][nonfinite]") {
    gs::parameter weights{gs::make_updater<float>(gs::sgd{}, gs::constant{1}),
                          std::vector<float>(3),
                          {.on_nonfinite = gs::nonfinite::skip}};
    std::vector<float> const bad{1, not_a_number, 3};
    CHECK(refusal<gs::value_error>([&] { weights.update(bad, {.rate_scale = -1}); }) ==
          "step_options.rate_scale: -1 is out of range; expected finite and >= 0");
    CHECK_THAT(refusal<gs::size_error>([&] {
                   weights.update(std::vector<float>{not_a_number, 1});
               }),
               Catch::Matchers::StartsWith("gradient: has 2 elements, parameter has 3"));
    CHECK(refusal<gs::value_error>([&] { weights.update(bad, {.rate = not_a_number}); }) ==
          "step_options.rate: nan is out of range; expected finite and >= 0");
    CHECK(refusal<gs::value_error>([&] { weights.update(bad, {.epoch = -1}); }) ==
          "step_options.epoch: -1 is out of range; expected >= 0");
    CHECK_THAT(refusal<gs::buffer_error>([&] { weights.update(bad, {.zero_gradient = true}); }),
               Catch::Matchers::StartsWith("gradient: is const or lazy, and zero_gradient is set"));
    CHECK(weights.clock().step == 0);
}

// A host that adds up gradients between steps would otherwise keep the NaN for ever.
TEST_CASE("a step that is left out clears its gradient if that was asked for", "[core][nonfinite]") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    gs::parameter weights{optimizer, std::vector<float>(3), {.on_nonfinite = gs::nonfinite::skip}};
    std::vector<float> g{1, not_a_number, 3};
    CHECK(!weights.update(g).applied);
    CHECK(g[2] == 3);
    CHECK(!weights.update(g, {.zero_gradient = true}).applied);
    CHECK(g == std::vector<float>(3));

    gs::model net{{.on_nonfinite = gs::nonfinite::skip}};
    net.add("a", gs::parameter{optimizer, std::vector<float>(2)});
    net.add("b", gs::parameter{optimizer, std::vector<float>(3)});
    std::vector<float> a{1, 2}, b{1, not_a_number, 3};
    CHECK(!net.update({{"a", a}, {"b", b}}).applied);
    CHECK(a[1] == 2);
    std::vector<float> const fixed{1, 2};
    CHECK_THAT(refusal<gs::buffer_error>([&] {
                   net.update({{"b", b}, {"a", fixed}}, {.zero_gradient = true});
               }),
               Catch::Matchers::StartsWith("a: gradient: is const or lazy"));
    CHECK(b[2] == 3);
    CHECK(!net.update({{"a", a}, {"b", b}}, {.zero_gradient = true}).applied);
    CHECK(a == std::vector<float>(2));
    CHECK(b == std::vector<float>(3));
}

TEST_CASE("on_nonfinite refuses a gradient that can be read once", "[core][nonfinite]") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    for (auto const how : {gs::nonfinite::skip, gs::nonfinite::raise}) {
        gs::parameter weights{optimizer, std::vector<float>(3), {.on_nonfinite = how}};
        CHECK(refusal<gs::buffer_error>([&] { weights.update(lazy_ones{3}); }) ==
              "gradient: is lazy, and on_nonfinite looks at it before the step; expected memory");
        CHECK(weights.clock().step == 0);
        CHECK(weights.values()[0] == 0);
    }
    gs::parameter weights{optimizer, std::vector<float>(3)};
    CHECK(weights.update(lazy_ones{3}).applied);
    CHECK(weights.values()[2] == -1);
}
