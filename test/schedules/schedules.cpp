// Every schedule against its formula in long double.
#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

using std::int64_t;
constexpr int64_t far_beyond = int64_t(1) << 40;
std::vector<int64_t> const times = {0, 1, 2, 3, 9, 10, 11, 499, 500, 501, 999, 1000, 1001, 12'345, far_beyond};

gs::clock at(int64_t t) { return {.step = t}; }

// Within `bound` ulp of the reference, where the powers, cosines and products of the formula are
// each within one.
template <class Schedule, class Reference>
void check_schedule(Schedule const& schedule, double bound, Reference const& reference) {
    for (int64_t t : times) {
        long double const exact = reference(static_cast<long double>(t));
        double const rate = schedule(at(t));
        INFO("t = " << t << ", rate = " << rate << ", reference = " << exact);
        long double const ulp =
            std::nextafter(std::abs(static_cast<double>(exact)), HUGE_VAL) - std::abs(static_cast<double>(exact));
        CHECK(std::abs(static_cast<long double>(rate) - exact) <= static_cast<long double>(bound) * ulp);
    }
}

} // namespace

TEST_CASE("constant", "[schedules]") {
    check_schedule(gs::constant{0.3}, 0, [](long double) { return static_cast<long double>(0.3); });
    CHECK(gs::constant{0}(at(5)) == 0);
}

TEST_CASE("poly", "[schedules]") {
    for (double const b : {0.0, 0.5, 0.75, 1.0, 2.0})
        for (double const a : {0.0, 1e-3, 1.0}) {
            // The base is rounded (half an ulp, times b in the power), the power and the product
            // are.
            check_schedule(gs::poly{.rate = 0.3, .a = a, .b = b}, 2 + b, [=](long double t) {
                return static_cast<long double>(0.3) *
                       std::pow(1 + static_cast<long double>(a) * t, -static_cast<long double>(b));
            });
        }
    CHECK(gs::poly{.rate = 0.5, .a = 1, .b = 1}(at(3)) == 0.125);
}

TEST_CASE("exponential", "[schedules]") {
    for (bool const staircase : {false, true})
        for (double const decay : {0.5, 0.96, 1.0, 1.0000001}) {
            for (int64_t t : times) {
                gs::exponential const schedule{.rate = 0.3, .decay = decay, .steps = 500, .staircase = staircase};
                auto const x = static_cast<long double>(t) / 500;
                long double const power = staircase ? std::floor(x) : x;
                long double const exact =
                    static_cast<long double>(0.3) * std::pow(static_cast<long double>(decay), power);
                double const rate = schedule(at(t));
                INFO("t = " << t << ", decay = " << decay << ", rate = " << rate << ", reference = " << exact);
                // The exponent is rounded by 2^-53 of itself, which the power multiplies by
                // ln(decay).
                long double const bound =
                    (3 + std::abs(power * std::log(static_cast<long double>(decay)))) * 0x1p-53L * exact;
                CHECK(std::abs(static_cast<long double>(rate) - exact) <=
                      bound + std::numeric_limits<double>::denorm_min());
            }
        }
    gs::exponential const stairs{.rate = 1, .decay = 0.5, .steps = 10, .staircase = true};
    CHECK(stairs(at(9)) == 1);
    CHECK(stairs(at(10)) == 0.5);
    CHECK(stairs(at(29)) == 0.25);
    CHECK(gs::exponential{.rate = 1, .decay = 0.5, .steps = 10}(at(far_beyond)) == 0);
    // The floor is taken in whole numbers: the ratio of the last step before a stair, as a double,
    // is the stair.
    int64_t const late = 300'000'000'000'000'000;
    CHECK(gs::exponential{.rate = 1, .decay = 0.5, .steps = late, .staircase = true}(at(late - 1)) == 1);
    // Nothing times a power that is infinite is nothing.
    CHECK(gs::exponential{.rate = 0, .decay = 2, .steps = 1}(at(2000)) == 0);
    CHECK(std::isinf(gs::exponential{.rate = 1, .decay = 2, .steps = 1}(at(2000))));
}

TEST_CASE("cosine", "[schedules]") {
    gs::cosine const schedule{.rate = 0.3, .steps = 1000, .end = 0.01};
    for (int64_t t : times) {
        long double const x = static_cast<long double>(std::min<int64_t>(t, 1000)) / 1000;
        auto const rate = static_cast<long double>(0.3), end = static_cast<long double>(0.01);
        long double const exact = end + (rate - end) / 2 * (1 + std::cos(std::numbers::pi_v<long double> * x));
        INFO("t = " << t);
        // Angle, cosine, 1 + cos and the difference are each rounded, relative to at most `rate`.
        CHECK(std::abs(static_cast<long double>(schedule(at(t))) - exact) <= 6 * 0x1p-53L * rate);
    }
    CHECK(schedule(at(0)) == 0.3);
    for (int64_t t : {int64_t(1000), int64_t(1001), far_beyond}) CHECK(schedule(at(t)) == 0.01); // exactly, for ever
    CHECK(gs::cosine{.rate = 0.5, .steps = 1}(at(0)) == 0.5);
    CHECK(gs::cosine{.rate = 0.5, .steps = 1}(at(1)) == 0);
    CHECK(gs::cosine{.rate = 0.25, .steps = 10, .end = 0.5}(at(5)) == Approx(0.375)); // it may rise
}

TEST_CASE("external gives no rate of its own", "[schedules]") {
    CHECK(refusal<gs::value_error>([] { gs::external{}(at(0)); }) ==
          "external.rate: is missing; expected it with each step, as next_step({.rate = ...})");
}

TEST_CASE("warmup leads to the start of the schedule that follows", "[schedules]") {
    gs::poly const after{.rate = 0.5, .a = 0.125, .b = 0.5};
    auto const follows = [&](auto const& ramp, int64_t begins) {
        for (int64_t t : {int64_t(0), int64_t(1), int64_t(100), far_beyond})
            CHECK(ramp(at(begins + t)) == after(at(t)));
    };
    SECTION("linear") {
        gs::warmup const ramp{after, 500, 0.1};
        for (int64_t t : {0, 1, 2, 250, 499})
            CHECK(ramp(at(t)) == Approx(0.1 + (0.5 - 0.1) * static_cast<double>(t) / 500).epsilon(1e-15));
        CHECK(ramp(at(0)) == 0.1);
        follows(ramp, 500);
    }
    SECTION("from 0") {
        gs::warmup const ramp{after, 4};
        CHECK(ramp(at(0)) == 0);
        CHECK(ramp(at(1)) == 0.125);
        CHECK(ramp(at(3)) == 0.375);
        follows(ramp, 4);
    }
    SECTION("exponential") {
        gs::warmup const ramp{after, 500, 0.001, gs::ramp::exponential};
        for (int64_t t : {0, 1, 2, 250, 499})
            CHECK(ramp(at(t)) == Approx(0.001 * std::pow(0.5 / 0.001, static_cast<double>(t) / 500)).epsilon(1e-15));
        CHECK(ramp(at(0)) == 0.001);
        follows(ramp, 500);
    }
    SECTION("constant") {
        gs::warmup const ramp{after, 500, 0.001, gs::ramp::constant};
        for (int64_t t : {0, 1, 2, 250, 499}) CHECK(ramp(at(t)) == 0.001);
        follows(ramp, 500);
    }
    SECTION("of no steps") { follows(gs::warmup{after, 0, 0.1}, 0); }
    SECTION("of one step") {
        gs::warmup const ramp{after, 1, 0.1};
        CHECK(ramp(at(0)) == 0.1);
        follows(ramp, 1);
    }
}

TEST_CASE("a warmup in place runs over the first steps of its schedule", "[schedules]") {
    gs::poly const after{.rate = 0.5, .a = 0.25, .b = 1};
    double const target = after(at(4)); // 0.25
    CHECK(target == 0.25);
    gs::warmup const linear{after, 4, 0.05, gs::ramp::linear, true};
    gs::warmup const exponential{after, 4, 0.0625, gs::ramp::exponential, true};
    gs::warmup const constant{after, 4, 0.05, gs::ramp::constant, true};
    CHECK(linear(at(0)) == 0.05);
    CHECK(linear(at(1)) == Approx(0.1).epsilon(1e-15));
    CHECK(linear(at(3)) == Approx(0.2).epsilon(1e-15));
    CHECK(exponential(at(0)) == 0.0625);
    CHECK(exponential(at(2)) == Approx(0.125).epsilon(1e-15));
    CHECK(constant(at(3)) == 0.05);
    for (int64_t t : {int64_t(4), int64_t(5), int64_t(1000), far_beyond}) {
        CHECK(linear(at(t)) == after(at(t)));
        CHECK(exponential(at(t)) == after(at(t)));
        CHECK(constant(at(t)) == after(at(t)));
    }
}

TEST_CASE("warmups nest around any schedule", "[schedules]") {
    gs::poly const after{.rate = 0.5, .a = 1, .b = 1};
    gs::warmup const inner{after, 4, 0.25, gs::ramp::constant};
    gs::warmup const outer{inner, 8, 0.0};
    static_assert(std::is_same_v<std::remove_const_t<decltype(outer)>, gs::warmup<gs::warmup<gs::poly>>>);
    for (int64_t t = 0; t < 8; ++t) CHECK(outer(at(t)) == 0.25 * static_cast<double>(t) / 8);
    for (int64_t t = 8; t < 12; ++t) CHECK(outer(at(t)) == 0.25);
    for (int64_t t : {int64_t(12), int64_t(13), far_beyond}) CHECK(outer(at(t)) == after(at(t - 12)));
}

TEST_CASE("a warmup hands samples and epochs on as they are", "[schedules]") {
    struct of_samples {
        double operator()(gs::clock now) const { return static_cast<double>(now.samples + now.epoch); }
    };
    gs::warmup const ramp{of_samples{}, 2};
    CHECK(ramp({.step = 1, .samples = 100, .epoch = 28}) == 64);
    CHECK(ramp({.step = 9, .samples = 100, .epoch = 28}) == 128);
}

TEST_CASE("the first step has the schedule's rate at 0", "[schedules]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::warmup{gs::constant{0.5}, 2});
    CHECK(optimizer.next_step().rate() == 0);
    CHECK(optimizer.next_step().rate() == 0.25);
    CHECK(optimizer.next_step().rate() == 0.5);
}
