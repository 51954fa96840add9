#pragma once
/// Schedules against a formula in long double, within a bound that follows from their roundings.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "support/catch.hpp"

namespace reference {

using number = long double;

/// Half the distance from 1 to the next double: one correctly rounded operation is within u of its
/// result. Powers, exponentials and cosines of the C library are within 2u.
inline constexpr number u = 0x1p-53L;
inline constexpr number pi = std::numbers::pi_v<number>;
inline constexpr std::int64_t far_beyond = std::int64_t(1) << 40;

inline gradstep::clock at(std::int64_t t) { return {.step = t}; }

/// Steps around the places at which something begins or ends, with the first ones and the far end.
inline std::vector<std::int64_t> around(std::vector<std::int64_t> const& places) {
    std::vector<std::int64_t> times{0, 1, 2, 3, 12'345, far_beyond};
    for (auto place : places)
        for (std::int64_t near : {place - 1, place, place + 1, place / 2, place / 3})
            if (near >= 0) times.push_back(near);
    return times;
}

/// `formula(t)` gives the rate and `error(t, rate)` how far from it a double may be.
template <class Schedule, class Formula, class Error>
void check(Schedule const& schedule, std::vector<std::int64_t> const& times, Formula const& formula,
           Error const& error) {
    for (std::int64_t t : times) {
        number const exact = formula(t), allowed = error(t, exact);
        double const rate = schedule(at(t));
        INFO(describe(schedule) << " at t = " << t << ": " << rate << ", formula " << exact << ", allowed " << allowed);
        CHECK(std::abs(rate - exact) <= allowed + 0x1p-1074L);
    }
}

/// The ways from one rate to another, and their error where x is off by `off`.
inline number between(number from, number to, number x, gradstep::anneal shape) {
    switch (shape) {
    case gradstep::anneal::cosine:
        return to + (from - to) / 2 * (1 + std::cos(pi * x));
    case gradstep::anneal::sqrt:
        return from + (to - from) * std::sqrt(x);
    default:
        return from + (to - from) * x;
    }
}
inline number error_between(number from, number to, number x, gradstep::anneal shape, number off) {
    number const way = std::abs(from - to), ends = u * std::max(std::abs(from), std::abs(to));
    switch (shape) {
    case gradstep::anneal::cosine: // angle 2u, cosine 2u, 1 + cosine 2u, difference u
        return way / 2 * (pi * (off + 2 * u) + 4 * u) + way * u + ends;
    case gradstep::anneal::sqrt:
        return way * (x > 0 ? off / std::sqrt(x) + 2 * u : off) + ends;
    default:
        return way * (off + u) + ends;
    }
}

} // namespace reference
