#pragma once
/// How far the weights of muon can be from its formula.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gradstep/rules/muon.hpp>

/// The bound for a computation with unit roundoff u, and weights of at most 2 at the start.
///
/// The singular values of X are at most 1 after the division by its norm, and p(s) = a s + b
/// s^3 + c s^5 keeps them below `largest` for the coefficients of the paper, where p changes by at
/// most `slope` times as much as its argument. In Frobenius norms, with rows r <= k columns,
/// |X| <= largest sqrt(r), and a product of matrices over k terms is off by at most k u times the
/// product of their norms. So a step moves an error e of X to at most slope e + d, with
///     dA = k u |X|^2
///     dB = |b| dA + |c| (2 largest^2 dA + r u |A|^2) + 3 u |B|
///     d = largest dB + (r + 2) u |B| |X| + u a |X|
/// Before the first step, gradient, momentum, norm and division are off by at most 8 roundings. A
/// step moves the weight by scale * X, where `scale` is the learning rate times the factor of the
/// rule, and rounds it by at most 4 u |w|.
inline double muon_bound(gradstep::muon const& rule, std::size_t rows, std::size_t cols, double u, double scale,
                         std::size_t steps) {
    double const largest = 1.21, slope = 4.25;
    double const r = static_cast<double>(std::min(rows, cols)), k = static_cast<double>(std::max(rows, cols));
    double const x = largest * std::sqrt(r), a = x * largest,
                 b = std::abs(rule.b) * a + std::abs(rule.c) * a * largest * largest;
    double const da = k * u * x * x;
    double const db =
        std::abs(rule.b) * da + std::abs(rule.c) * (2 * largest * largest * da + r * u * a * a) + 3 * u * b;
    double const d = largest * db + (r + 2) * u * b * x + u * rule.a * x;
    double e = 8 * u;
    for (std::int64_t s = 0; s < rule.ns_steps; ++s) e = slope * e + d;
    double const n = static_cast<double>(steps);
    return n * (scale * e + 4 * u * (2 + n * scale * x));
}
