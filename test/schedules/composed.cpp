// piecewise, chain, and the schedules around another.
#include <cmath>
#include <limits>
#include <type_traits>

#include "schedules/reference.hpp"

namespace gs = gradstep;
using namespace reference;

namespace {
constexpr auto most = std::numeric_limits<std::int64_t>::max();

// Tells what it is called with.
struct steps_of {
    double operator()(gs::clock now) const { return static_cast<double>(now.step); }
};
struct samples_of {
    double operator()(gs::clock now) const { return static_cast<double>(now.samples); }
};
struct epochs_of {
    double operator()(gs::clock now) const { return static_cast<double>(now.epoch); }
};
} // namespace

TEST_CASE("piecewise", "[schedules]") {
    gs::piecewise const schedule{.boundaries = {10, 20, 20, 30}, .rates = {0.5, 0.25, 0.75, 0.125, 0.0625}};
    for (std::int64_t t : {0, 1, 9, 10}) CHECK(schedule(at(t)) == 0.5);
    for (std::int64_t t : {11, 19, 20}) CHECK(schedule(at(t)) == 0.25);
    for (std::int64_t t : {21, 29, 30}) CHECK(schedule(at(t)) == 0.125); // 0.75 has no step
    for (std::int64_t t : {std::int64_t(31), std::int64_t(1000), most}) CHECK(schedule(at(t)) == 0.0625);
    CHECK(gs::piecewise{{}, {0.5}}(at(7)) == 0.5);
    CHECK(gs::piecewise{{0}, {0.5, 0.25}}(at(0)) == 0.5);
    CHECK(gs::piecewise{{0}, {0.5, 0.25}}(at(1)) == 0.25);
    auto const copy = schedule;
    CHECK(copy(at(25)) == 0.125);
}

TEST_CASE("chain starts each schedule at its own step 0", "[schedules]") {
    gs::exponential const first{.rate = 0.5, .decay = 0.5, .steps = 10};
    gs::cosine const second{.rate = 0.25, .steps = 50};
    gs::poly const third{.rate = 0.125, .a = 1, .b = 0.5};
    gs::chain const schedule{first, 100, second, 150, third};
    static_assert(std::is_same_v<std::remove_const_t<decltype(schedule)>,
                                 gs::chain<gs::exponential, std::int64_t, gs::cosine, std::int64_t, gs::poly>>);
    static_assert(gs::schedule<std::remove_const_t<decltype(schedule)>>);
    for (std::int64_t t : {0, 1, 50, 99}) CHECK(schedule(at(t)) == first(at(t)));
    for (std::int64_t t : {100, 101, 149}) CHECK(schedule(at(t)) == second(at(t - 100)));
    for (std::int64_t t : {std::int64_t(150), std::int64_t(151), far_beyond, most})
        CHECK(schedule(at(t)) == third(at(t - 150)));

    CHECK(gs::chain{first}(at(7)) == first(at(7)));
    gs::chain const none_of_first{first, 0, second, 0, third}; // a schedule of no steps is passed over
    CHECK(none_of_first(at(3)) == third(at(3)));
}

TEST_CASE("chain in chain and with warm-ups", "[schedules]") {
    gs::chain const inner{gs::constant{0.5}, 10, gs::poly{.rate = 0.25, .a = 1, .b = 1}};
    gs::chain const outer{gs::warmup{gs::constant{0.75}, 4}, 20, inner};
    CHECK(outer(at(2)) == 0.375);
    CHECK(outer(at(19)) == 0.75);
    CHECK(outer(at(20)) == 0.5);
    CHECK(outer(at(29)) == 0.5);
    CHECK(outer(at(30)) == 0.25);
    CHECK(outer(at(33)) == 0.0625);
    gs::warmup const ramp{inner, 8};
    CHECK(ramp(at(4)) == 0.25);
    CHECK(ramp(at(8)) == 0.5);
    CHECK(ramp(at(18)) == 0.25);
    gs::chain const first{inner, 12, gs::constant{0.125}};
    CHECK(first(at(11)) == inner(at(11)));
    CHECK(first(at(12)) == 0.125);
}

TEST_CASE("scaled and clamped", "[schedules]") {
    gs::poly const inner{.rate = 0.5, .a = 1, .b = 1};
    gs::scaled const half{inner, 0.5};
    gs::clamped const bounded{inner, 0.125, 0.375};
    for (std::int64_t t : {std::int64_t(0), std::int64_t(1), std::int64_t(3), far_beyond}) {
        CHECK(half(at(t)) == inner(at(t)) / 2);
        CHECK(bounded(at(t)) == std::min(std::max(inner(at(t)), 0.125), 0.375));
    }
    CHECK(bounded(at(0)) == 0.375);
    CHECK(bounded(at(1)) == 0.25);
    CHECK(bounded(at(9)) == 0.125);
    CHECK(gs::scaled{gs::clamped{inner, 0.25, 0.25}, 2}(at(5)) == 0.5);
    gs::exponential const beyond{.rate = 1, .decay = 2, .steps = 1}; // infinite at step 2000
    CHECK(gs::scaled{beyond, 0}(at(2000)) == 0);
    CHECK(std::isinf(gs::scaled{beyond, 0.5}(at(2000))));
    struct broken {
        double operator()(gs::clock) const { return std::numeric_limits<double>::quiet_NaN(); }
    };
    CHECK(std::isnan(gs::scaled{broken{}, 0}(at(0)))); // for the step to refuse
    // A host's integers are numbers too.
    struct whole {
        int operator()(gs::clock) const { return 3; }
    };
    CHECK(gs::clamped{whole{}, 0.0, 2.0}(at(0)) == 2);
}

TEST_CASE("by_samples and by_epochs count in samples and epochs", "[schedules]") {
    gs::clock const now{.step = 3, .samples = 700, .epoch = 2};
    gs::poly const inner{.rate = 0.5, .a = 0.5, .b = 1};
    CHECK(gs::by_samples{inner}(now) == inner(at(700)));
    CHECK(gs::by_epochs{inner}(now) == inner(at(2)));
    CHECK(gs::by_epochs{inner}(now) == 0.25);
    SECTION("the innermost says what is counted") {
        CHECK(gs::by_samples{gs::by_epochs{steps_of{}}}(now) == 2);
        CHECK(gs::by_epochs{gs::by_samples{steps_of{}}}(now) == 700);
    }
    SECTION("samples and epochs stay what they are") {
        CHECK(gs::by_samples{samples_of{}}(now) == 700);
        CHECK(gs::by_samples{epochs_of{}}(now) == 2);
        CHECK(gs::by_epochs{samples_of{}}(now) == 700);
    }
}

TEST_CASE("ramps and boundaries inside by_samples are numbers of samples", "[schedules]") {
    gs::by_samples const ramp{gs::warmup{steps_of{}, 1000}};
    CHECK(ramp({.step = 1, .samples = 500}) == 0);
    CHECK(ramp({.step = 2, .samples = 1500}) == 500); // the inner schedule began at sample 1000
    gs::by_epochs const joined{gs::chain{gs::constant{0.5}, 30, steps_of{}}};
    CHECK(joined({.step = 1'000'000, .samples = 7, .epoch = 29}) == 0.5);
    CHECK(joined({.step = 1'000'001, .samples = 7, .epoch = 31}) == 1);
}

TEST_CASE("what restarts steps hands samples and epochs on", "[schedules]") {
    SECTION("a ramp over steps aims at what a schedule by samples has reached, and goes on there") {
        gs::warmup const ramp{gs::by_samples{steps_of{}}, 4};
        CHECK(ramp({.step = 1, .samples = 100}) == 25);
        CHECK(ramp({.step = 2, .samples = 200}) == 100);
        CHECK(ramp({.step = 4, .samples = 400}) == 400);
        CHECK(ramp({.step = 9, .samples = 900}) == 900);
    }
    SECTION("in place too") {
        gs::warmup const ramp{gs::by_epochs{steps_of{}}, 4, 0, gs::ramp::linear, true};
        CHECK(ramp({.step = 2, .epoch = 8}) == 4);
        CHECK(ramp({.step = 5, .epoch = 9}) == 9);
    }
    SECTION("a chain over steps") {
        gs::chain const joined{gs::by_samples{steps_of{}}, 10, gs::by_epochs{steps_of{}}, 20, steps_of{}};
        CHECK(joined({.step = 9, .samples = 300, .epoch = 2}) == 300);
        CHECK(joined({.step = 10, .samples = 400, .epoch = 2}) == 2);
        CHECK(joined({.step = 25, .samples = 900, .epoch = 4}) == 5);
    }
}

TEST_CASE("an updater's samples and epochs reach its schedule", "[schedules]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::by_samples{gs::piecewise{{63}, {0.5, 0.25}}});
    CHECK(optimizer.next_step({.samples = 32}).rate() == 0.5);
    CHECK(optimizer.next_step({.samples = 32}).rate() == 0.5); // 32 samples done
    CHECK(optimizer.next_step({.samples = 32}).rate() == 0.25);
    optimizer.seek({.step = 1, .samples = 32});
    CHECK(optimizer.next_step({.samples = 32}).rate() == 0.5);
}

TEST_CASE("schedules describe themselves", "[schedules]") {
    CHECK(describe(gs::piecewise{{10, 20}, {0.5, 0.25, 0.125}}) ==
          "piecewise{boundaries = {10, 20}, rates = {0.5, 0.25, 0.125}}");
    CHECK(describe(gs::piecewise{{}, {0.5}}) == "piecewise{boundaries = {}, rates = {0.5}}");
    CHECK(describe(gs::cyclic{0.25, 0.5, 2, 3, gs::cyclic_mode::triangular2}) ==
          "cyclic{low = 0.25, high = 0.5, rise = 2, fall = 3, mode = triangular2, gamma = 1}");
    CHECK(describe(gs::cyclic_mode::triangular) == "triangular");
    CHECK(describe(gs::cyclic_mode::exp_range) == "exp_range");
    CHECK(describe(gs::one_cycle{.rate = 0.5, .steps = 100}) ==
          "one_cycle{rate = 0.5, steps = 100, rise = 0.3, start_divisor = 25, end_divisor = 10000, shape = cosine}");
    CHECK(describe(gs::anneal::linear) == "linear");
    CHECK(describe(gs::anneal::sqrt) == "sqrt");
    CHECK(describe(gs::chain{gs::constant{0.5}, 10, gs::by_epochs{gs::constant{0.25}}, 20, gs::external{}}) ==
          "chain{constant{rate = 0.5}, 10, by_epochs{inner = constant{rate = 0.25}}, 20, external}");
    CHECK(describe(gs::clamped{gs::scaled{gs::constant{0.5}, 2}, 0, 1}) ==
          "clamped{inner = scaled{inner = constant{rate = 0.5}, factor = 2}, low = 0, high = 1}");
    CHECK(describe(gs::warmup{gs::by_samples{gs::constant{0.5}}, 10}) ==
          "warmup{after = by_samples{inner = constant{rate = 0.5}}, steps = 10, start = 0, shape = linear, "
          "in_place = false}");
}
