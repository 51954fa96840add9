#pragma once
#include <algorithm>
#include <span>

#include <gradstep/number/pack.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A sum whose bits depend only on the numbers: blocks of 4096 elements, each with 32 columns
// (element i is added to column i % 32, in order), the columns folded in halves, the blocks added
// in order. All in double. Threads split the blocks. On a GPU each column has a thread, so that 32
// neighbours read 32 neighbouring elements.
inline constexpr std::size_t block_size = 4096, block_columns = 32;

GRADSTEP_HD constexpr std::size_t block_count(std::size_t n) { return (n + block_size - 1) / block_size; }

GRADSTEP_HD double square_onto(double sum, double x) { return math::fma(x, x, sum); }

// An element times a power of two, which prevents overflow and underflow of squares of doubles;
// floats need none.
template <class S> GRADSTEP_HD double scaled(S x, [[maybe_unused]] double scale) {
    if constexpr (sizeof(widen(x)) < sizeof(double)) return widen(x);
    else return static_cast<double>(widen(x)) * scale;
}

// Folds 32 column sums to one.
GRADSTEP_HD double fold_columns(double* columns) {
    for (std::size_t width = block_columns / 2; width != 0; width /= 2)
        for (std::size_t i = 0; i < width; ++i) columns[i] += columns[i + width];
    return columns[0];
}

// The sum of squares of block b of x, each element times `scale`.
template <class S> double block_sum(std::span<S const> x, std::size_t b, double scale = 1) {
    S const* const first = x.data() + b * block_size;
    std::size_t const n = std::min(block_size, x.size() - b * block_size);
    double columns[block_columns] = {};
    std::size_t i = 0;
    for (; i + block_columns <= n; i += block_columns)
        for (std::size_t c = 0; c < block_columns; ++c)
            columns[c] = square_onto(columns[c], scaled(first[i + c], scale));
    for (std::size_t c = 0; i + c < n; ++c) columns[c] = square_onto(columns[c], scaled(first[i + c], scale));
    return fold_columns(columns);
}

template <class S> double sum_of_blocks(std::span<S const> x, double scale = 1) {
    double sum = 0;
    for (std::size_t b = 0; b < block_count(x.size()); ++b) sum += block_sum(x, b, scale);
    return sum;
}

// The sum of squares of one column of block b, as in block_sum: for one GPU thread.
template <class S>
GRADSTEP_HD double column_sum(S const* x, std::size_t n, std::size_t b, std::size_t column, double scale) {
    std::size_t const end = n - b * block_size < block_size ? n : (b + 1) * block_size;
    double sum = 0;
    for (std::size_t i = b * block_size + column; i < end; i += block_columns)
        sum = square_onto(sum, scaled(x[i], scale));
    return sum;
}

// The root of f(1), the sum of the squares of numbers times 1. If it overflows or underflows, which
// happens only with doubles, uses f of a power of two instead.
template <class F> double root_of_squares(F const& f) {
    constexpr double scale = 0x1p600, largest = std::numeric_limits<double>::max();
    double const sum = f(1.0);
    if (sum > largest) return std::sqrt(f(1 / scale)) * scale;
    if (sum < 0x1p-900) return std::sqrt(f(scale)) / scale; // the loss is below 2^-1022 for each element
    return std::sqrt(sum);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
