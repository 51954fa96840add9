#pragma once
#include <gradstep/core/members.hpp>
#include <gradstep/core/moments.hpp>

namespace gradstep {

/// An exponential moving average of the weights, for `averaged`. Polyak & Juditsky 1992 average uniformly; this forgets.
///
///     average <- decay * average + (1 - decay) * w
///
/// 1 - decay is that of the decay as the element's arithmetic holds it, so that the two factors add up to 1: else the
/// average of a weight w would settle beside w, in float at decay 0.9999 by 1.7e-4 of it. It starts at the initial
/// weights, and so needs no bias correction. Range: 0 <= decay < 1.
struct ema {
    double decay = 0.999;
    static constexpr auto members = member_list{member{"decay", &ema::decay, ranges::fraction}};

    template <class T> using coeffs = moving_average<T>;
    template <class T> coeffs<T> prepare() const {
        coeffs<T> average(decay);
        average.gain = T(1) - average.beta; // not of the unrounded decay: nothing corrects what the two miss 1 by
        return average;
    }
};

} // namespace gradstep
