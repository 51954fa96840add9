// The schedules that fall along one formula, against it in long double.
#include <limits>

#include "schedules/reference.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;
using namespace reference;

TEST_CASE("polynomial", "[schedules]") {
    for (double const power : {0.0, 0.5, 1.0, 2.0, 3.5})
        for (double const end : {0.0, 0.01, 0.5})
            for (std::int64_t const steps : {std::int64_t(1), std::int64_t(1000), std::int64_t(1) << 62}) {
                gs::polynomial const schedule{.rate = 0.3, .steps = steps, .end = end, .power = power};
                auto const fallen = [=](std::int64_t t) {
                    number const left = static_cast<number>(steps - std::min(t, steps)) / static_cast<number>(steps);
                    return (number(0.3) - number(end)) * std::pow(left, number(power));
                };
                check(
                    schedule, around({500, 1000, steps}), [&](std::int64_t t) { return fallen(t) + number(end); },
                    // The base 3u (two conversions, a division), times the power; the power 2u, the
                    // rest.
                    [&](std::int64_t t, number exact) {
                        return std::abs(fallen(t)) * (3 * number(power) + 3) * u + exact * u;
                    });
            }
    gs::polynomial const line{.rate = 0.5, .steps = 4};
    CHECK(line(at(0)) == 0.5);
    CHECK(line(at(1)) == 0.375);
    CHECK(line(at(4)) == 0);
    CHECK(line(at(std::numeric_limits<std::int64_t>::max())) == 0);
    CHECK(gs::polynomial{.rate = 0.3, .steps = 4, .end = 0.01}(at(5)) == 0.01); // exactly, for ever
}

TEST_CASE("linear", "[schedules]") {
    for (double const a : {0.0, 1e-4, 0.3})
        for (double const b : {0.0, 0.01, 0.5})
            check(
                gs::linear{.rate = 0.3, .a = a, .b = b}, around({1000, 2900, 3000}),
                // Fused here too: near the end the rounding of a product is more than the allowed
                // error.
                [=](std::int64_t t) {
                    return std::max(std::fma(-number(a), static_cast<number>(t), number(0.3)), number(b));
                },
                [](std::int64_t, number exact) { return exact * u; }); // one fused rounding
    CHECK(gs::linear{.rate = 0.5, .a = 0.125, .b = 0.125}(at(2)) == 0.25);
    CHECK(gs::linear{.rate = 0.5, .a = 0.125, .b = 0.125}(at(4)) == 0.125);
    CHECK(gs::linear{.rate = 1, .a = 1, .b = 0}(at(std::numeric_limits<std::int64_t>::max())) == 0);
}

TEST_CASE("inverse_time and natural_exp", "[schedules]") {
    for (bool const staircase : {false, true})
        for (double const decay : {0.0, 0.5, 3.0}) {
            std::int64_t const steps = 500;
            auto const x = [=](std::int64_t t) {
                number const ratio = static_cast<number>(t) / static_cast<number>(steps);
                return number(decay) * (staircase ? std::floor(ratio) : ratio);
            };
            check(
                gs::inverse_time{.rate = 0.3, .decay = decay, .steps = steps, .staircase = staircase},
                around({500, 1000, 1500}), [=](std::int64_t t) { return number(0.3) / (1 + x(t)); },
                [](std::int64_t, number exact) { return 3 * u * exact; }); // ratio, sum, division
            check(
                gs::natural_exp{.rate = 0.3, .decay = decay, .steps = steps, .staircase = staircase},
                around({500, 1000, 1500}), [=](std::int64_t t) { return number(0.3) * std::exp(-x(t)); },
                // Ratio and product are rounded: 2u of the exponent. The exponential 2u, the last
                // product u.
                [=](std::int64_t t, number exact) { return (3 + 2 * x(t)) * u * exact; });
        }
    gs::inverse_time const stairs{.rate = 1, .decay = 1, .steps = 10, .staircase = true};
    CHECK(stairs(at(9)) == 1);
    CHECK(stairs(at(10)) == 0.5);
    CHECK(stairs(at(39)) == 0.25);
    gs::natural_exp const steps_of_e{.rate = 1, .decay = 2, .steps = 10, .staircase = true};
    CHECK(steps_of_e(at(9)) == 1);
    CHECK(steps_of_e(at(19)) == std::exp(-2.0));
    // The floor is taken in whole numbers: the ratio of the last step before a stair, as a double,
    // is the stair.
    std::int64_t const late = 300'000'000'000'000'000;
    CHECK(gs::inverse_time{.rate = 1, .decay = 1, .steps = late, .staircase = true}(at(late - 1)) == 1);
    CHECK(gs::natural_exp{.rate = 1, .decay = 1, .steps = late, .staircase = true}(at(late - 1)) == 1);
    CHECK(gs::natural_exp{.rate = 1, .decay = 1, .steps = 10}(at(far_beyond)) == 0);
}

TEST_CASE("noam", "[schedules]") {
    for (std::int64_t const steps : {1, 10, 4000})
        check(
            gs::noam{.rate = 2, .width = 512, .steps = steps}, around({steps}),
            [=](std::int64_t step) -> number {
                auto const t = static_cast<number>(step), w = static_cast<number>(steps);
                if (step == 0) return 0;
                return 2 / std::sqrt(number(512)) * std::min(1 / std::sqrt(t), t / std::pow(w, number(1.5)));
            },
            [](std::int64_t, number exact) { return 6 * u * exact; }); // three roundings each side, and the products
    gs::noam const schedule{.rate = 1, .width = 16, .steps = 4};
    CHECK(schedule(at(0)) == 0);
    CHECK(schedule(at(1)) == 0.25 / 8);
    CHECK(schedule(at(4)) == 0.125); // the top
    CHECK(schedule(at(64)) == 0.25 / 8);
}

TEST_CASE("warmup_stable_decay", "[schedules]") {
    for (auto const shape : {gs::anneal::linear, gs::anneal::cosine, gs::anneal::sqrt})
        for (auto const [warmup, stable, decay] :
             {std::array<std::int64_t, 3>{100, 500, 300}, {0, 10, 10}, {10, 0, 10}, {10, 10, 0}, {0, 0, 0}}) {
            gs::warmup_stable_decay const schedule{0.3, warmup, stable, decay, 0.001, 0.01, shape};
            auto const w = warmup, s = stable, d = decay;
            auto const ramp = [=](std::int64_t t) { return static_cast<number>(t) / static_cast<number>(w); };
            auto const fall = [=](std::int64_t t) { return static_cast<number>(t - w - s) / static_cast<number>(d); };
            check(
                schedule, around({w, w + s, w + s + d, w + s + d / 2}),
                [=](std::int64_t t) -> number {
                    if (t < w) return between(0.001, 0.3, ramp(t), gs::anneal::linear);
                    if (t < w + s) return 0.3;
                    if (t < w + s + d) return between(0.3, 0.01, fall(t), shape);
                    return 0.01;
                },
                [=](std::int64_t t, number) -> number {
                    if (t < w) return error_between(0.001, 0.3, ramp(t), gs::anneal::linear, u);
                    if (t < w + s || t >= w + s + d) return 0;
                    return error_between(0.3, 0.01, fall(t), shape, u);
                });
        }
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    gs::warmup_stable_decay const long_ones{.rate = 0.5, .warmup = most, .stable = most, .decay = most};
    CHECK(long_ones(at(most)) == 0.5);
}
