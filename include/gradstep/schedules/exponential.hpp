#pragma once
#include <cmath>
#include <cstdint>

#include <gradstep/core/clock.hpp>
#include <gradstep/core/members.hpp>

namespace gradstep {

/// rate * decay^(t / steps),  staircase: rate * decay^floor(t / steps)
///
/// t counts steps from 0. Ranges: rate >= 0, decay > 0, steps >= 1.
struct exponential {
    double rate = missing, decay = missing;
    std::int64_t steps = missing_count;
    bool staircase = false;
    static constexpr auto members = std::tuple{member{"rate", &exponential::rate, ranges::non_negative},
                                               member{"decay", &exponential::decay, ranges::positive},
                                               member{"steps", &exponential::steps, ranges::positive_count},
                                               member{"staircase", &exponential::staircase}};

    GRADSTEP_INLINE double operator()(clock now) const {
        double const x = static_cast<double>(now.step) / static_cast<double>(steps);
        return rate * std::pow(decay, staircase ? std::floor(x) : x);
    }
};

} // namespace gradstep
