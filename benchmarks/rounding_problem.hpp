#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The problem on which rounding errors are measured: a quadratic with noise. Each run computes the
/// gradient at its own weights, and rounds it to its storage, as training does.
namespace rounding {

using real = long double;

inline constexpr std::size_t size = 4096;

/// A hash of two numbers, uniform in (-1, 1).
inline double uniform(std::uint32_t what, std::size_t i) {
    std::uint32_t x = (static_cast<std::uint32_t>(i) + 0x9e3779b9u * what) * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return (static_cast<double>(x ^ x >> 15) + 0.5) * 0x1p-31 - 1;
}

/// In (-1, 1), and a multiple of 2^-7, which every dtype represents.
inline double first_weight(std::size_t i) { return std::trunc(uniform(0, i) * 128) / 128; }
/// The gradient of step t at the weight w: of a quadratic, with noise.
inline real gradient(int t, std::size_t i, real w) {
    real const curvature = 0.55 + 0.45 * uniform(1, i), target = uniform(2, i);
    return curvature * (w - target) + 0.5 * uniform(2 + static_cast<std::uint32_t>(t), i);
}

template <class T> real widened(T x) {
    if constexpr (std::is_floating_point_v<T>) return x;
    else return static_cast<float>(x);
}
/// To 16 bits by way of float, where twice rounded differs from once in one of many thousand
/// numbers.
template <class T> T rounded(real x) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(x);
    else return T(static_cast<float>(x));
}

} // namespace rounding
