#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

/// Numbers in [-2, 2), multiples of 2^-20, from integer arithmetic alone: the same on every machine
/// and compiler.
template <class T> std::vector<T> numbers(std::size_t n, std::uint32_t seed) {
    std::vector<T> out;
    out.reserve(n);
    std::uint32_t x = seed * 2654435761u + 1;
    for (std::size_t i = 0; i < n; ++i) {
        x = x * 1664525u + 1013904223u;
        out.push_back(T(static_cast<float>(static_cast<std::int32_t>(x >> 10) - (1 << 21)) / (1 << 20)));
    }
    return out;
}

/// Whether two vectors hold the same bits: tells -0 from 0 and takes a NaN for equal to itself.
template <class T> bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// The buffers of one tensor for a rule with two slots, the second of which is not negative.
struct tensor {
    std::vector<float> w, g, m, v;

    explicit tensor(std::size_t n, std::uint32_t seed = 1)
        : w(numbers<float>(n, seed)), g(numbers<float>(n, seed + 1)), m(numbers<float>(n, seed + 2)),
          v(numbers<float>(n, seed + 3)) {
        for (float& x : v) x *= x;
    }
};
inline bool same_bits(tensor const& a, tensor const& b) {
    return same_bits(a.w, b.w) && same_bits(a.g, b.g) && same_bits(a.m, b.m) && same_bits(a.v, b.v);
}
