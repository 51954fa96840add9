// Composing an updater, preparing steps, the clock, and what the types say of themselves.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

template <class Element, class Rule> auto updater_of(Rule rule) {
    return gs::make_updater<Element>(rule, gs::constant{0.125}, gs::serial_backend{});
}
template <class Element, class Rule> using updater_type = decltype(updater_of<Element>(Rule{}));

} // namespace

// Bytes read and written for an element: parameter twice, gradient once, each slot twice.
static_assert(updater_type<float, gs::sgd>::bytes_per_element == 12);
static_assert(updater_type<float, gs::momentum>::bytes_per_element == 20);
static_assert(updater_type<float, gs::adam>::bytes_per_element == 28);
static_assert(updater_type<double, gs::adagrad>::bytes_per_element == 40);
static_assert(updater_type<double, gs::ftrl>::bytes_per_element == 56);
static_assert(updater_type<gs::bfloat16, gs::sgd>::bytes_per_element == 6);
static_assert(updater_type<gs::bfloat16, gs::adam>::bytes_per_element == 22);
static_assert(updater_type<gs::mixed<gs::bfloat16>, gs::sgd>::bytes_per_element == 14);
static_assert(updater_type<gs::mixed<gs::bfloat16>, gs::adam>::bytes_per_element == 30);

static_assert(updater_type<float, gs::sgd>::state_bytes(1000) == 0);
static_assert(updater_type<float, gs::adam>::state_bytes(1000) == 8000);
static_assert(updater_type<double, gs::nesterov>::state_bytes(1000) == 8000);
static_assert(updater_type<gs::bfloat16, gs::adam>::state_bytes(1000) == 8000);
static_assert(updater_type<gs::mixed<gs::bfloat16>, gs::adam>::state_bytes(1000) == 12000);
static_assert(updater_type<gs::mixed<gs::bfloat16>, gs::sgd>::state_bytes(std::size_t(1) << 33) == std::size_t(4)
                                                                                                       << 33);

TEST_CASE("policies are recognised in any order", "[core]") {
    gs::adam const rule{.beta1 = 0.5};
    gs::l2 const regularizer{0.25};
    gs::poly const schedule{.rate = 1, .a = 1, .b = 1};
    gs::serial_backend const backend;
    auto const reference = gs::make_updater<float>(rule, regularizer, schedule, backend);
    static_assert(std::is_same_v<std::remove_const_t<decltype(reference)>,
                                 gs::updater<float, gs::adam, gs::l2, gs::poly, gs::serial_backend>>);
    auto const same = [&](auto const& other) {
        static_assert(std::is_same_v<decltype(other), decltype(reference)&>);
        CHECK(describe(other) == describe(reference));
    };
    same(gs::make_updater<float>(backend, schedule, regularizer, rule));
    same(gs::make_updater<float>(schedule, backend, rule, regularizer));
    same(gs::make_updater<float>(regularizer, rule, backend, schedule));
}

TEST_CASE("what is not given has a default", "[core]") {
    auto const optimizer = gs::make_updater<double>(gs::constant{1}, gs::sgd{});
    static_assert(std::is_same_v<std::remove_const_t<decltype(optimizer)>,
                                 gs::updater<double, gs::sgd, gs::none, gs::constant, gs::simd_backend<>>>);
    CHECK(optimizer.schedule().rate == 1);
}

TEST_CASE("an updater describes itself in one line", "[core]") {
    auto const optimizer =
        gs::make_updater<float>(gs::adam{.beta2 = 0.98}, gs::l2{1e-4},
                                gs::warmup{gs::cosine{.rate = 1e-3, .steps = 10'000}, 500}, gs::serial_backend{});
    CHECK(gs::describe(optimizer) ==
          "adam{beta1 = 0.9, beta2 = 0.98, epsilon = 1e-08, epsilon_place = outside, bias_correction = true}, l2{rate "
          "= 1e-04}, "
          "warmup{after = cosine{rate = 0.001, steps = 10000, end = 0}, steps = 500, start = 0, shape = linear, "
          "in_place = false}, float, serial_backend, 28 bytes an element");

    auto const other = gs::make_updater<gs::mixed<gs::bfloat16>>(
        gs::sgd{}, gs::all_of{gs::clip_value{1}, gs::proximal{gs::l1{0.5}}}, gs::external{});
    CHECK_THAT(gs::describe(other),
               Catch::Matchers::StartsWith("sgd, all_of{clip_value{limit = 1}, proximal{penalty = l1{rate = 0.5}}}, "
                                           "external, mixed<bfloat16>, simd_backend<"));
}

namespace {
double halving(gs::clock now) { return 1 / std::exp2(now.step); }
struct by_the_host {
    double operator()(gs::clock) const { return 0.5; }
};
template <class T> std::string describe_of(T scale) {
    return gs::describe([scale](gs::clock now) { return scale / (1 + static_cast<double>(now.step)); });
}
} // namespace

TEST_CASE("a function is a schedule, and describes itself as one", "[core]") {
    auto const lambda = [](gs::clock now) { return 0.5 / (1 + static_cast<double>(now.step)); };
    auto optimizer = gs::make_updater<float>(gs::sgd{}, lambda, gs::serial_backend{});
    CHECK(optimizer.next_step().rate() == 0.5);
    CHECK(optimizer.next_step().rate() == 0.25);
    CHECK(gs::describe(optimizer) == "sgd, none, a function of the clock, float, serial_backend, 12 bytes an element");
    CHECK(gs::describe(gs::scaled{lambda, 2}) == "scaled{inner = a function of the clock, factor = 2}");
    CHECK(describe_of(1.0) == "a function of the clock"); // of a template
    CHECK(gs::describe(gs::make_updater<float>(gs::sgd{}, &halving).schedule()) == "a function of the clock");
    CHECK(gs::describe(std::function<double(gs::clock)>(halving)) == "a function of the clock");
    CHECK(gs::describe(by_the_host{}) == "by_the_host");
}

TEST_CASE("initialize takes slices as steps do", "[core]") {
    auto const check = [](auto const& optimizer) {
        using updater = std::remove_cvref_t<decltype(optimizer)>;
        using storage = typename updater::traits::storage;
        using state = typename updater::traits::state;
        static constexpr std::size_t slots = updater::slots;
        struct buffers {
            std::vector<storage> w, g;
            std::array<std::vector<state>, slots> s;
        };
        auto const tensors = [] {
            std::vector<buffers> out;
            for (std::size_t const n : {5u, 0u, 70u}) {
                out.push_back({numbers<storage>(n, 3), std::vector<storage>(n), {}});
                for (std::size_t i = 0; i < slots; ++i) out.back().s[i].assign(updater::slot_size(i, n), state(7));
            }
            return out;
        };
        auto apart = tensors(), together = tensors(), one = tensors();
        std::vector<gs::slice<updater>> model;
        for (auto& x : apart) std::apply([&](auto&... s) { optimizer.initialize(x.w, s...); }, x.s);
        for (auto& x : together) std::apply([&](auto&... s) { model.push_back({x.w, x.g, s...}); }, x.s);
        optimizer.initialize(model);
        for (auto& x : one)
            std::apply([&](auto&... s) { optimizer.initialize(gs::slice<updater>(x.w, x.g, s...)); }, x.s);
        for (std::size_t k = 0; k < apart.size(); ++k) {
            CHECK(together[k].s == apart[k].s);
            CHECK(one[k].s == apart[k].s);
        }
        CHECK(apart[2].s[0].front() != state(7));

        auto const before = together;
        together[2].s[0].assign(together[2].s[0].size(), state(7));
        model.insert(model.begin() + 1,
                     std::apply([&](auto&... s) { return gs::slice<updater>(one[2].w, one[2].g, s...); }, one[0].s));
        CHECK_THAT(refusal<gs::size_error>([&] { optimizer.initialize(model); }),
                   Catch::Matchers::StartsWith("tensor 1: "));
        CHECK(together[2].s[0].front() == state(7)); // nothing is written
    };
    gs::serial_backend const backend;
    check(gs::make_updater<float>(gs::adagrad{.initial_accumulator = 0.5}, gs::constant{1}, backend));
    check(gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, gs::constant{1}, backend));
    check(gs::make_updater<float>(gs::rowwise_adam{}, gs::constant{1}, backend));
    check(gs::make_updater<float>(gs::adam{}, gs::constant{1}));
}

TEST_CASE("a step advances the clock and knows its number and rate", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::poly{.rate = 1, .a = 1, .b = 1});
    CHECK(optimizer.clock() == gs::clock{});
    auto const first = optimizer.next_step({.samples = 128});
    CHECK(first.number() == 1);
    CHECK(first.rate() == 1); // the schedule at 0
    CHECK(optimizer.clock() == gs::clock{.step = 1, .samples = 128});

    auto const second = optimizer.next_step({.rate_scale = 0.5, .samples = 2});
    CHECK(second.number() == 2);
    CHECK(second.rate() == 0.25);
    CHECK(optimizer.clock() == gs::clock{.step = 2, .samples = 130});

    auto const third = optimizer.next_step({.rate_scale = 2, .rate = 0.125});
    CHECK(third.rate() == 0.25); // the host's rate, scaled as the schedule's is
    CHECK(optimizer.clock() == gs::clock{.step = 3, .samples = 130});
}

TEST_CASE("an external schedule takes the host's rate", "[core]") {
    auto by_host = gs::make_updater<float>(gs::adam{}, gs::external{});
    auto by_schedule = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    tensor a(50), b(50);
    by_host.next_step({.rate = 0.25})(a.w, a.g, a.m, a.v);
    by_schedule.next_step()(b.w, b.g, b.m, b.v);
    CHECK(same_bits(a, b));
}

TEST_CASE("gradient_scale and rate_scale are the scaling of gradient and rate", "[core]") {
    tensor a(77), b(77);
    for (float& x : b.g) x *= 0.25f;
    auto scaled = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.5});
    auto plain = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.125});
    scaled.next_step({.gradient_scale = 0.25, .rate_scale = 0.25})(a.w, a.g, a.m, a.v);
    plain.next_step()(b.w, b.g, b.m, b.v);
    CHECK(same_bits(a.w, b.w)); // the regularizer sees the scaled gradient: it is not scaled itself
    CHECK(same_bits(a.m, b.m));
    CHECK(same_bits(a.v, b.v));
    CHECK(same_bits(a.g, numbers<float>(77, 2))); // the gradient is read, not written
}

TEST_CASE("zero_gradient clears every gradient and changes nothing else", "[core]") {
    std::size_t const n = GENERATE(as<std::size_t>{}, 0, 1, 7, 8, 35, 4097);
    tensor a(n), b(n);
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.125});
    optimizer.next_step({.zero_gradient = true})(a.w, a.g, a.m, a.v);
    optimizer.seek({});
    optimizer.next_step()(b.w, b.g, b.m, b.v);
    CHECK(same_bits(a.g, std::vector<float>(n)));
    CHECK(same_bits(a.w, b.w));
    CHECK(same_bits(a.m, b.m));
    CHECK(same_bits(a.v, b.v));
}

TEST_CASE("all options of a step at once", "[core]") {
    tensor a(100), b(100);
    auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{0.125});
    optimizer.next_step({.gradient_scale = 4, .rate_scale = 0.5, .samples = 3, .zero_gradient = true, .rate = 1})(
        a.w, a.g, a.m);
    for (float& x : b.g) x *= 4;
    optimizer.next_step({.rate = 0.5})(b.w, b.g, b.m);
    CHECK(same_bits(a.w, b.w));
    CHECK(same_bits(a.m, b.m));
    CHECK(same_bits(a.g, std::vector<float>(100)));
}

TEST_CASE("seek resumes a run bit for bit", "[core]") {
    auto const make = [] {
        return gs::make_updater<float>(gs::adam{}, gs::warmup{gs::cosine{.rate = 0.25, .steps = 8}, 3});
    };
    tensor whole(45), resumed(45);
    auto straight = make();
    for (int i = 0; i < 10; ++i) straight.next_step({.samples = 7})(whole.w, whole.g, whole.m, whole.v);

    gs::clock stands;
    {
        auto before = make();
        for (int i = 0; i < 4; ++i) before.next_step({.samples = 7})(resumed.w, resumed.g, resumed.m, resumed.v);
        stands = before.clock();
    }
    auto after = make();
    after.seek(stands);
    for (int i = 0; i < 6; ++i) after.next_step({.samples = 7})(resumed.w, resumed.g, resumed.m, resumed.v);
    CHECK(same_bits(whole, resumed));
    CHECK(after.clock() == straight.clock());

    // A clock far beyond any int32: bias corrections and schedules count in 64 bits.
    after.seek({.step = std::int64_t(1) << 40});
    CHECK(after.next_step().number() == (std::int64_t(1) << 40) + 1);
}

TEST_CASE("a step outlives its updater and serves any number of tensors", "[core]") {
    tensor a(31), b(64), once_a(31), once_b(64);
    auto optimizer = std::optional(
        gs::make_updater<float>(gs::adam{}, gs::all_of{gs::clip_value{1}, gs::l2{0.5}}, gs::constant{0.25}));
    auto const step = optimizer->next_step();
    step(once_a.w, once_a.g, once_a.m, once_a.v);
    step(once_b.w, once_b.g, once_b.m, once_b.v);
    optimizer.reset();

    auto const copy = step;
    copy(b.w, b.g, b.m, b.v);
    copy(a.w, a.g, a.m, a.v);
    CHECK(same_bits(a, once_a));
    CHECK(same_bits(b, once_b));
}

TEST_CASE("initialize sets the slots to their values at step 0", "[core]") {
    std::vector<float> w = numbers<float>(33, 1), z(33, 9), n(33, 9);
    gs::make_updater<float>(gs::adagrad{.initial_accumulator = 0.5}, gs::constant{1}).initialize(w, n);
    CHECK(n == std::vector<float>(33, 0.5f));
    gs::make_updater<float>(gs::ftrl{.initial_accumulator = 0.25}, gs::constant{1}).initialize(w, z, n);
    CHECK(z == std::vector<float>(33));
    CHECK(n == std::vector<float>(33, 0.25f));
    CHECK(same_bits(w, numbers<float>(33, 1)));

    auto half = numbers<gs::bfloat16>(33, 3);
    std::vector<float> m(33, 9), master(33, 9);
    gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, gs::constant{1}).initialize(half, m, master);
    CHECK(m == std::vector<float>(33));
    for (std::size_t i = 0; i < 33; ++i) CHECK(master[i] == static_cast<float>(half[i]));
}

TEST_CASE("buffers are anything contiguous", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    auto const step = optimizer.next_step();
    tensor reference(6);
    step(reference.w, reference.g, reference.m, reference.v);

    tensor x(6);
    std::array<float, 6> w;
    std::copy(x.w.begin(), x.w.end(), w.begin());
    float v[6];
    std::copy(x.v.begin(), x.v.end(), v);
    step(w, std::span<float const>(x.g), std::span<float, 6>(x.m.data(), 6), v);
    CHECK(same_bits(std::vector<float>(w.begin(), w.end()), reference.w));
    CHECK(same_bits(x.m, reference.m));
    CHECK(same_bits(std::vector<float>(v, v + 6), reference.v));
}
