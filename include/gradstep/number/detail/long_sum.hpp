#pragma once
#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A sum of many numbers, together with the rounding error of its additions.
struct long_sum {
    double high = 0, low = 0;

    void add(double x) {
        double const sum = high + x, added = sum - high;
        low += (high - (sum - added)) + (x - added);
        high = sum;
    }
    friend GRADSTEP_HD double operator-(long_sum a, long_sum b) { return (a.high - b.high) + (a.low - b.low); }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
