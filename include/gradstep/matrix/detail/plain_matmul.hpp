#pragma once
#include <algorithm>
#include <cstring>

#include <gradstep/number/pack.hpp>
#include <gradstep/policy/matrix_product.hpp>

// The built-in product of matrices. Element (i, j) is a chain of multiply-adds over k in order,
// from 0, and then alpha * sum + beta * c. So its bits depend neither on the packs nor on the split
// over threads.
namespace gradstep::detail::inline GRADSTEP_ISA {
template <class T, class V> struct plain_matmul {
    using io = pack_traits<V>;
    static constexpr std::size_t lanes = io::size;
    // A tile of c stays in registers: `tall` rows of `wide` columns.
    static constexpr std::size_t wide = lanes < 4 ? 8 : 2 * lanes, tall = 6, packs = wide / lanes;

    // The elements of memory that a part of the work needs, for products with this k.
    static constexpr std::size_t panel_size(std::size_t k) { return k * wide; }
    static std::size_t panels(matmul_call<T> const& x) { return (x.n + wide - 1) / wide; }

    // Computes columns [first, last) of the panels. `panel` has panel_size(x.k) elements.
    static void run(matmul_call<T> const& x, T* panel, std::size_t first, std::size_t last) {
        for (std::size_t p = first; p < last; ++p) {
            std::size_t const j = p * wide, columns = std::min(wide, x.n - j);
            copy_panel(x, j, columns, panel);
            std::size_t i = 0;
            for (; i + tall <= x.m; i += tall) tile<tall>(x, panel, i, j, columns);
            for (; i < x.m; ++i) tile<1>(x, panel, i, j, columns);
        }
    }

private:
    // Copies columns [j, j + columns) of op(b), row by row, and zeros behind them.
    static void copy_panel(matmul_call<T> const& x, std::size_t j, std::size_t columns, T* panel) {
        std::size_t const row = x.row_of_b();
        for (std::size_t k = 0; k < x.k; ++k) {
            T* const to = panel + k * wide;
            if (x.transpose_b)
                for (std::size_t c = 0; c < columns; ++c) to[c] = x.b[(j + c) * row + k];
            else std::memcpy(to, x.b + k * row + j, columns * sizeof(T));
            for (std::size_t c = columns; c < wide; ++c) to[c] = T(0);
        }
    }
    // Rows [i, i + Rows) of the panel's columns.
    template <std::size_t Rows>
    static void tile(matmul_call<T> const& x, T const* panel, std::size_t i, std::size_t j, std::size_t columns) {
        std::size_t const down = x.transpose_a ? 1 : x.row_of_a(), along = x.transpose_a ? x.row_of_a() : 1;
        T const* const a = x.a + i * down;
        V sums[Rows][packs];
        for (auto& row : sums)
            for (V& sum : row) sum = V(T(0));
        for (std::size_t k = 0; k < x.k; ++k) {
            V b[packs];
            for (std::size_t p = 0; p < packs; ++p) b[p] = io::load(panel + k * wide + p * lanes, all_lanes{});
            GRADSTEP_UNROLL
            for (std::size_t r = 0; r < Rows; ++r) {
                V const each(a[r * down + k * along]);
                for (std::size_t p = 0; p < packs; ++p) sums[r][p] = math::fma(each, b[p], sums[r][p]);
            }
        }
        alignas(64) T out[wide];
        for (std::size_t r = 0; r < Rows; ++r) {
            for (std::size_t p = 0; p < packs; ++p) io::store(out + p * lanes, sums[r][p], all_lanes{});
            T* const c = x.c + (i + r) * x.n + j;
            for (std::size_t col = 0; col < columns; ++col)
                c[col] = x.beta == T(0) ? math::mul(x.alpha, out[col])
                                        : math::fma(x.alpha, out[col], math::mul(x.beta, c[col]));
        }
    }
};

// Runs a product on the threads of a backend. `panels` has room for `parts` parts.
template <class Backend, class T>
void multiply_plainly(Backend const& backend, matmul_call<T> const& x, T* panels, std::size_t most_parts) {
    using work = plain_matmul<T, typename Backend::template pack<T>>;
    std::size_t const count = work::panels(x);
    std::size_t const parts = std::max<std::size_t>(
        1, std::min({most_parts, count, backend.parts_for(x.m * x.n * std::max<std::size_t>(x.k, 1))}));
    backend.for_each_part(parts, [&](std::size_t part) {
        work::run(x, panels + part * work::panel_size(x.k), count * part / parts, count * (part + 1) / parts);
    });
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
