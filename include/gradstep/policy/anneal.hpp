#pragma once
#include <numbers>

#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep {
/// The shape of a curve from one rate to another, with x from 0 to 1:
///
///     linear   from + (to - from) * x
///     cosine   to + (from - to) / 2 * (1 + cos(pi * x))
///     sqrt     from + (to - from) * sqrt(x)
enum class anneal { linear, cosine, sqrt };
template <> inline constexpr std::array enumerators<anneal>{"linear", "cosine", "sqrt"};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
GRADSTEP_INLINE double ratio(std::int64_t t, std::int64_t steps) {
    return static_cast<double>(t) / static_cast<double>(steps);
}

// t / steps, or its whole part: computed with integers, since the last step before a stair, divided
// as a double, can round to the stair.
GRADSTEP_INLINE double periods(std::int64_t t, std::int64_t steps, bool staircase) {
    return staircase ? static_cast<double>(t / steps) : ratio(t, steps);
}

GRADSTEP_INLINE double between(double from, double to, double x, anneal shape) {
    if (shape == anneal::cosine) return std::fma((from - to) / 2, 1 + std::cos(std::numbers::pi * x), to);
    return std::fma(to - from, shape == anneal::sqrt ? std::sqrt(x) : x, from);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
