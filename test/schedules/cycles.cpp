// The schedules that rise again, against their formulas in long double.
#include <limits>

#include "schedules/reference.hpp"

namespace gs = gradstep;
using namespace reference;

namespace {
constexpr auto most = std::numeric_limits<std::int64_t>::max();
}

TEST_CASE("cosine_restarts", "[schedules]") {
    // Walks from step to step, so that no closed form can be wrong in both.
    for (double const decay : {1.0, 0.9, 0.5})
        for (std::int64_t const multiply : {1, 2, 3, 10})
            for (std::int64_t const steps : {1, 7, 100}) {
                gs::cosine_restarts const schedule{0.3, steps, 0.01, static_cast<double>(multiply), decay};
                std::int64_t within = 0, length = steps, cycle = 0;
                for (std::int64_t t = 0; t < 3000; ++t, ++within) {
                    if (within == length) {
                        within = 0;
                        length *= multiply;
                        ++cycle;
                    }
                    number const x = static_cast<number>(within) / static_cast<number>(length);
                    number const height = (number(0.3) - number(0.01)) * std::pow(number(decay), number(cycle));
                    number const exact = number(0.01) + height / 2 * (1 + std::cos(pi * x));
                    // x 3u and the angle 2u more, cosine 2u, 1 + cosine 2u; the height 4u; the sum
                    // u.
                    number const allowed = height / 2 * (5 * pi + 4) * u + 4 * height * u + exact * u;
                    double const rate = schedule(at(t));
                    INFO(describe(schedule) << " at t = " << t << ": " << rate << ", formula " << exact);
                    CHECK(std::abs(rate - exact) <= allowed);
                }
            }
}

TEST_CASE("cosine_restarts begins each cycle at its exact step, however late", "[schedules]") {
    for (std::int64_t const steps : {1, 3, 1000})
        for (std::int64_t const multiply : {2, 3, 5, 7, 10, 1000}) {
            gs::cosine_restarts const schedule{.rate = 1, .steps = steps, .multiply = static_cast<double>(multiply)};
            std::int64_t begin = 0;
            for (std::int64_t length = steps; length <= most / multiply && begin <= most - length; length *= multiply) {
                INFO(describe(schedule) << " at t = " << begin);
                CHECK(schedule(at(begin)) == 1); // the top, and nowhere else
                if (length > 1) {
                    double const x = static_cast<double>(length - 1) / static_cast<double>(length);
                    CHECK(schedule(at(begin + length - 1)) == (1 + std::cos(std::numbers::pi * x)) / 2);
                }
                begin += length;
            }
        }
    gs::cosine_restarts const even{.rate = 1, .steps = 3};
    std::int64_t const late = (std::int64_t(1) << 62) / 3 * 3;
    CHECK(even(at(late)) == 1);
    CHECK(even(at(late + 1)) == Approx(0.75).epsilon(1e-15));
    CHECK(even(at(late - 1)) == Approx(0.25).epsilon(1e-15));
    for (double const multiply : {1.0, 1.5, 2.0, 9.0, 1e18, 1e19, 1e300})
        for (std::int64_t const steps : {std::int64_t(1), std::int64_t(1000), std::int64_t(1) << 62, most}) {
            gs::cosine_restarts const schedule{.rate = 1, .steps = steps, .end = 0.25, .multiply = multiply};
            for (std::int64_t t : {std::int64_t(0), std::int64_t(1) << 53, std::int64_t(1) << 62, most - 1, most}) {
                INFO(describe(schedule) << " at t = " << t);
                CHECK(schedule(at(t)) >= 0.25);
                CHECK(schedule(at(t)) <= 1);
            }
        }
}

TEST_CASE("cosine_restarts without a height stays level, however its cycles grow", "[schedules]") {
    gs::cosine_restarts const schedule{.rate = 0.25, .steps = 1, .end = 0.25, .decay = 2};
    for (std::int64_t const t : {std::int64_t(0), std::int64_t(3), std::int64_t(2000), most})
        CHECK(schedule(at(t)) == 0.25);
}

TEST_CASE("cosine_restarts with a broken factor begins its cycles between steps", "[schedules]") {
    gs::cosine_restarts const schedule{.rate = 1, .steps = 10, .multiply = 1.5, .decay = 0.5};
    number begin = 0, length = 10, height = 1;
    for (std::int64_t t = 0; t < 1000; ++t) {
        if (static_cast<number>(t) >= begin + length) {
            begin += length;
            length *= 1.5L;
            height /= 2;
        }
        number const exact = height / 2 * (1 + std::cos(pi * (static_cast<number>(t) - begin) / length));
        // How far t is in its cycle has the error of where that begins, (1.5^i - 1) / 0.5: below 6u
        // of a cycle.
        CHECK(std::abs(schedule(at(t)) - exact) <= height * (8 * pi + 4) * u);
    }
}

TEST_CASE("one_cycle", "[schedules]") {
    for (auto const shape : {gs::anneal::cosine, gs::anneal::linear, gs::anneal::sqrt})
        for (double const rise : {0.0, 0.25, 0.3, 0.9, 1.0})
            for (std::int64_t const steps : {1, 2, 10, 1000}) {
                gs::one_cycle const schedule{0.3, steps, rise, 10, 100, shape};
                number const n = static_cast<number>(steps), start = number(0.3) / 10, end = start / 100;
                number const top = number(rise) * n - 1, last = n - 1;
                auto const time = [=](std::int64_t t) { return std::min(static_cast<number>(t), last); };
                check(
                    schedule, around({static_cast<std::int64_t>(std::max<number>(top, 0)), steps - 1, steps}),
                    [=](std::int64_t step) -> number {
                        number const t = time(step);
                        if (t < top) return between(start, 0.3, t / top, shape);
                        if (top >= last) return 0.3;
                        return between(0.3, end, (t - top) / (last - top), shape);
                    },
                    [=](std::int64_t step, number) -> number {
                        // top is off by u of itself, which moves x by u * top / (last - top) on the
                        // way down.
                        number const t = time(step);
                        if (t < top) return error_between(start, 0.3, t / top, shape, 3 * u);
                        if (top >= last) return 0;
                        number const off = 3 * u + 2 * u * std::max<number>(top, 1) / (last - top);
                        number const x = (t - top) / (last - top);
                        // Next to the top the root sees the error of x itself, not the error of its
                        // square root.
                        if (shape == gs::anneal::sqrt && x < off) return std::sqrt(2 * off);
                        return error_between(0.3, end, x, shape, off);
                    });
            }
    gs::one_cycle const schedule{.rate = 1, .steps = 101, .rise = 50.0 / 101};
    CHECK(schedule(at(0)) == Approx(1 / 25.0).epsilon(1e-15));
    CHECK(schedule(at(49)) == 1);
    for (std::int64_t t : {std::int64_t(100), std::int64_t(101), most})
        CHECK(schedule(at(t)) == Approx(1 / 25.0 / 1e4).epsilon(1e-15));
}

TEST_CASE("one_cycle that does not rise begins on its way down", "[schedules]") {
    for (double const rise : {0.0, 0.0625, 0.125}) { // rise * steps <= 1
        gs::one_cycle const schedule{.rate = 1, .steps = 8, .rise = rise, .shape = gs::anneal::linear};
        double const top = rise * 8 - 1, x = -top / (7 - top);
        CHECK(schedule(at(0)) == Approx(1 + (1 / 25.0 / 1e4 - 1) * x).epsilon(1e-15));
        CHECK(schedule(at(0)) > 0.8);
    }
    CHECK(gs::one_cycle{.rate = 1, .steps = 8, .rise = 0.25, .shape = gs::anneal::linear}(at(0)) == 1 / 25.0);
}

TEST_CASE("one_cycle_momentum", "[schedules]") {
    for (auto const shape : {gs::anneal::cosine, gs::anneal::linear, gs::anneal::sqrt})
        for (double const rise : {0.0, 0.25, 0.3, 0.9, 1.0})
            for (std::int64_t const steps : {1, 2, 10, 1000}) {
                gs::one_cycle_momentum const schedule{steps, 0.85, 0.95, rise, shape};
                number const n = static_cast<number>(steps), low = 0.85, high = 0.95;
                number const top = number(rise) * n - 1, last = n - 1;
                auto const time = [=](std::int64_t t) { return std::min(static_cast<number>(t), last); };
                check(
                    schedule, around({static_cast<std::int64_t>(std::max<number>(top, 0)), steps - 1, steps}),
                    [=](std::int64_t step) -> number {
                        number const t = time(step);
                        if (t < top) return between(high, low, t / top, shape);
                        if (top >= last) return low;
                        return between(low, high, (t - top) / (last - top), shape);
                    },
                    [=](std::int64_t step, number) -> number { // as of one_cycle
                        number const t = time(step);
                        if (t < top) return error_between(high, low, t / top, shape, 3 * u);
                        if (top >= last) return 0;
                        number const off = 3 * u + 2 * u * std::max<number>(top, 1) / (last - top);
                        number const x = (t - top) / (last - top);
                        if (shape == gs::anneal::sqrt && x < off) return std::sqrt(2 * off);
                        return error_between(low, high, x, shape, off);
                    });
            }
    // It is lowest where one_cycle is highest.
    gs::one_cycle_momentum const schedule{.steps = 101, .rise = 50.0 / 101};
    CHECK(schedule(at(0)) == 0.95);
    CHECK(schedule(at(49)) == 0.85);
    CHECK(schedule(at(100)) == 0.95);
    CHECK(schedule(at(most)) == 0.95);
}

TEST_CASE("cyclic", "[schedules]") {
    for (auto const mode : {gs::cyclic_mode::triangular, gs::cyclic_mode::triangular2, gs::cyclic_mode::exp_range})
        for (auto const [up, down] : {std::array<std::int64_t, 2>{1, 1}, {4, 4}, {200, 300}, {7, 1}}) {
            gs::cyclic const schedule{0.01, 0.3, up, down, mode, 0.999};
            auto const rise = up, fall = down;
            auto const way = [=](std::int64_t t) {
                std::int64_t const within = t % (rise + fall);
                number const height = within < rise
                                          ? static_cast<number>(within) / static_cast<number>(rise)
                                          : 1 - static_cast<number>(within - rise) / static_cast<number>(fall);
                number const scale = mode == gs::cyclic_mode::triangular ? 1
                                     : mode == gs::cyclic_mode::triangular2
                                         ? std::pow(number(2), -static_cast<number>(t / (rise + fall)))
                                         : std::pow(number(0.999), static_cast<number>(t));
                return (number(0.3) - number(0.01)) * height * scale;
            };
            check(
                schedule, around({rise, rise + fall, 2 * (rise + fall), 2 * (rise + fall) + rise}),
                [&](std::int64_t t) { return number(0.01) + way(t); },
                // Height u, scale 2u, their product u, the difference u; the sum u.
                [&](std::int64_t t, number exact) { return 5 * u * way(t) + exact * u; });
        }
    gs::cyclic const triangles{.low = 0.25, .high = 0.75, .rise = 2, .fall = 4};
    CHECK(triangles(at(0)) == 0.25);
    CHECK(triangles(at(1)) == 0.5);
    CHECK(triangles(at(2)) == 0.75);
    CHECK(triangles(at(4)) == 0.5);
    CHECK(triangles(at(6)) == 0.25);
    CHECK(triangles(at(8)) == 0.75);
    gs::cyclic const halved{.low = 0.25, .high = 0.75, .rise = 2, .fall = 4, .mode = gs::cyclic_mode::triangular2};
    CHECK(halved(at(2)) == 0.75);
    CHECK(halved(at(8)) == 0.5);
    CHECK(halved(at(14)) == 0.375);
    CHECK(halved(at(most)) == 0.25);
    // gamma^t is infinite from step 71 333 on: at the low point it does not count, nor where there
    // is no height.
    gs::cyclic const growing{
        .low = 0.25, .high = 0.75, .rise = 2, .fall = 4, .mode = gs::cyclic_mode::exp_range, .gamma = 1.01};
    CHECK(growing(at(600'000)) == 0.25);
    CHECK(std::isinf(growing(at(600'001))));
    gs::cyclic const level{
        .low = 0.25, .high = 0.25, .rise = 2, .fall = 4, .mode = gs::cyclic_mode::exp_range, .gamma = 1.01};
    CHECK(level(at(600'001)) == 0.25);
}
