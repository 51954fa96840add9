#pragma once
#include <gradstep/core/members.hpp>
#include <gradstep/core/moments.hpp>

namespace gradstep {

/// An exponential moving average of the weights, for `averaged`. Polyak & Juditsky 1992 average uniformly; this forgets.
///
///     average <- decay * average + (1 - decay) * w
///
/// It starts at the initial weights, and so needs no bias correction. Range: 0 <= decay < 1.
struct ema {
    double decay = 0.999;
    static constexpr auto members = std::tuple{member{"decay", &ema::decay, ranges::fraction}};

    template <class T> using coeffs = moving_average<T>;
    template <class T> coeffs<T> prepare() const { return coeffs<T>(decay); }
};

} // namespace gradstep
