#pragma once
/// The products of matrices by CBLAS (OpenBLAS, MKL, BLIS), for rules that need them: `muon`. The
/// only header that includes cblas.h. Link gradstep::blas.
///
///     gs::muon{.matmul = gs::blas_matmul}
#include <cblas.h>

#include <gradstep/policy/matrix_product.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
struct blas_product {
    template <class T> void operator()(matmul_call<T> const& x) const {
        auto const number = [](std::size_t n) { return static_cast<int>(n); };
        auto const flag = [](bool transposes) { return transposes ? CblasTrans : CblasNoTrans; };
        auto const row = [&](std::size_t n) { return number(n == 0 ? 1 : n); };
        if (x.m == 0 || x.n == 0) return;
        if constexpr (std::is_same_v<T, float>)
            cblas_sgemm(CblasRowMajor, flag(x.transpose_a), flag(x.transpose_b), number(x.m), number(x.n), number(x.k),
                        x.alpha, x.a, row(x.row_of_a()), x.b, row(x.row_of_b()), x.beta, x.c, row(x.n));
        else
            cblas_dgemm(CblasRowMajor, flag(x.transpose_a), flag(x.transpose_b), number(x.m), number(x.n), number(x.k),
                        x.alpha, x.a, row(x.row_of_a()), x.b, row(x.row_of_b()), x.beta, x.c, row(x.n));
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep {
/// Multiplies matrices of float or double by cblas_sgemm and cblas_dgemm. Rows and columns must be
/// below 2^31. The BLAS uses its own threads (for OpenBLAS: OPENBLAS_NUM_THREADS), and its bits can
/// depend on their number.
inline constexpr detail::blas_product blas_matmul{};
} // namespace gradstep
