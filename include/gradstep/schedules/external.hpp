#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/policy/clock.hpp>

namespace gradstep {
/// Your own scheduler gives the rate with every step: `next_step({.rate = r})`. A step without a
/// rate throws value_error.
struct external {
    GRADSTEP_INLINE double operator()(clock) const {
        detail::fail<value_error>({"external.rate"}, {"is missing"},
                                  {"it with each step, as next_step({.rate = ...})"});
    }
};
} // namespace gradstep
