#pragma once
/// The products of matrices by xtensor-blas, for rules that need them: `muon`. The only header that
/// includes xtensor-blas. Link the BLAS that xtensor-blas calls.
///
///     gs::muon{.matmul = gs::xtensor_blas_matmul}
#include <xtensor-blas/xblas.hpp>

#include <gradstep/adapt/xtensor.hpp>
#include <gradstep/policy/matrix_product.hpp>

#if __has_include(<xtensor/containers/xadapt.hpp>) // xtensor >= 0.26
#include <xtensor/containers/xadapt.hpp>
#else
#include <xtensor/xadapt.hpp>
#endif

namespace gradstep::detail::inline GRADSTEP_ISA {
struct xtensor_blas_product {
    template <class T> void operator()(matmul_call<T> const& x) const {
        if (x.m == 0 || x.n == 0) return;
        auto const matrix = [](T* p, std::size_t rows, std::size_t cols) {
            return xt::adapt(p, rows * cols, xt::no_ownership(), std::array{rows, cols});
        };
        // xblas asks for writable adaptors, and reads a and b only.
        auto const a = matrix(const_cast<T*>(x.a), x.transpose_a ? x.k : x.m, x.row_of_a());
        auto const b = matrix(const_cast<T*>(x.b), x.transpose_b ? x.n : x.k, x.row_of_b());
        auto c = matrix(x.c, x.m, x.n);
        xt::blas::gemm(a, b, c, x.transpose_a, x.transpose_b, x.alpha, x.beta);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep {
/// Multiplies matrices of float or double by xt::blas::gemm.
inline constexpr detail::xtensor_blas_product xtensor_blas_matmul{};
} // namespace gradstep
