// The products of matrices of other libraries: each call, and a step of muon with them.
#include <support/catch.hpp>
#include <support/muon_bound.hpp>

#include <gradstep/adapt/blas.hpp>
#include <gradstep/adapt/eigen.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/muon.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace gs = gradstep;

namespace {

template <class T> std::vector<T> numbers(std::size_t n, std::size_t seed) {
    std::vector<T> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<T>((i * i * 7 + i * 13 * seed + 5 * seed) % 31) - 15;
    return out;
}

// Whole numbers, whose sums every order adds without rounding.
template <class T, class Product> void check_calls(Product const& product) {
    for (bool const transpose_a : {false, true})
        for (bool const transpose_b : {false, true})
            for (auto const& [m, n, k] : {std::array<std::size_t, 3>{3, 5, 7}, {1, 4, 2}, {4, 1, 1}, {20, 33, 9}})
                for (T const beta : {T(0), T(1), T(-2)}) {
                    CAPTURE(transpose_a, transpose_b, m, n, k, beta);
                    auto const a = numbers<T>(m * k, 1), b = numbers<T>(k * n, 2), before = numbers<T>(m * n, 3);
                    auto c = before;
                    if (beta == 0) std::fill(c.begin(), c.end(), std::numeric_limits<T>::quiet_NaN()); // not read
                    gs::matmul_call<T> call{transpose_a, transpose_b, m,        n,    k,
                                            T(3),        a.data(),    b.data(), beta, c.data()};
                    product(call);
                    for (std::size_t i = 0; i < m; ++i)
                        for (std::size_t j = 0; j < n; ++j) {
                            T sum = 0;
                            for (std::size_t l = 0; l < k; ++l)
                                sum += (transpose_a ? a[l * m + i] : a[i * k + l]) *
                                       (transpose_b ? b[j * k + l] : b[l * n + j]);
                            REQUIRE(c[i * n + j] == 3 * sum + (beta == 0 ? T(0) : beta * before[i * n + j]));
                        }
                }
}
template <class T, class Backend> void check_built_in(Backend const& backend) {
    std::vector<T> panels(1 << 16);
    check_calls<T>([&](gs::matmul_call<T> const& x) { gs::detail::multiply_plainly(backend, x, panels.data(), 4); });
}

} // namespace

TEMPLATE_TEST_CASE("Products of matrices", "[adapt]", float, double) {
    gs::thread_pool pool{3};
    check_built_in<TestType>(gs::serial_backend{});
    check_built_in<TestType>(gs::simd_backend{});
    check_built_in<TestType>(gs::simd_backend{pool});
    check_calls<TestType>(gs::blas_matmul);
    check_calls<TestType>(gs::eigen_matmul);
}

TEST_CASE("muon by the products of other libraries", "[adapt]") {
    auto const trained = [](gs::matrix_product const& by) {
        auto optimizer = gs::make_updater<double>(gs::muon{.matmul = by}, gs::constant{0.1});
        gs::parameter w{optimizer, numbers<double>(12 * 20, 1), {.shape = {12, 20}}};
        for (std::size_t s = 2; s < 5; ++s) w.update(numbers<double>(12 * 20, s));
        return std::vector(w.values().begin(), w.values().end());
    };
    auto const expected = trained({});
    for (gs::matrix_product const& by : {gs::matrix_product(gs::blas_matmul), gs::matrix_product(gs::eigen_matmul)}) {
        CHECK_FALSE(by.is_built_in());
        auto const found = trained(by);
        // Both are within the bound of the formula. These weights are at most 8 times as large as
        // there, and so is what they are rounded by.
        double const bound = 8 * muon_bound({}, 12, 20, 0x1p-53, 0.1, 3);
        for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(std::abs(found[i] - expected[i]) <= 2 * bound);
    }
}
