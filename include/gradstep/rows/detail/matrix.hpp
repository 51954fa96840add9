#pragma once
#include <gradstep/number/pack.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A square matrix in double, near the identity or not. The diagonal is stored as its distance from
// `base`, which is 1 or 0. So a decay of 1e-20 a step is not lost beside the 1, and the error of a
// product of many matrices is relative to their distance from 1.
template <std::size_t N> struct matrix {
    double at[N][N], base[N];

    static GRADSTEP_HD matrix identity() {
        matrix out;
        for (std::size_t i = 0; i < N; ++i) {
            for (std::size_t k = 0; k < N; ++k) out.at[i][k] = 0;
            out.base[i] = 1;
        }
        return out;
    }
    GRADSTEP_HD double value(std::size_t i, std::size_t k) const { return i == k ? base[i] + at[i][i] : at[i][k]; }

    // Measures the diagonal from the nearer of 1 and 0. Exact: the added number is between half and
    // twice the element. Blocks of steps do this when they are combined; the few blocks of a gap
    // together are at most 16 times nearer to 0.
    void center() {
        for (std::size_t i = 0; i < N; ++i) {
            bool const far = base[i] == 1 && at[i][i] < -0.5, near = base[i] == 0 && at[i][i] > 0.5 && at[i][i] < 2;
            if (!far && !near) continue;
            at[i][i] += far ? 1 : -1;
            base[i] = far ? 0 : 1;
        }
    }
    friend GRADSTEP_HD matrix operator*(matrix const& a, matrix const& b) {
        matrix out;
        for (std::size_t i = 0; i < N; ++i)
            for (std::size_t k = 0; k < N; ++k) {
                double sum = math::mul(a.at[i][0], b.at[0][k]);
                for (std::size_t j = 1; j < N; ++j) sum = math::fma(a.at[i][j], b.at[j][k], sum);
                // Times 1 or 0: exact.
                out.at[i][k] = sum + math::fma(a.base[i], b.at[i][k], a.at[i][k] * b.base[k]);
            }
        for (std::size_t i = 0; i < N; ++i) out.base[i] = a.base[i] * b.base[i];
        return out;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
