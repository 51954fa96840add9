#pragma once
#include <cstddef>
#include <type_traits>

#include <gradstep/base/compiler.hpp>

namespace gradstep {
/// One product of matrices: c <- alpha * op(a) * op(b) + beta * c. The matrices are in row-major
/// order without gaps. op(x) is x or its transpose. op(a) is m x k, op(b) is k x n, and c is m x n;
/// c does not overlap a and b. If beta is 0, c is not read.
template <class T> struct matmul_call {
    bool transpose_a = false, transpose_b = false;
    std::size_t m = 0, n = 0, k = 0;
    T alpha = 1;
    T const *a = nullptr, *b = nullptr;
    T beta = 0;
    T* c = nullptr;

    /// The length of a row of a in memory.
    GRADSTEP_INLINE std::size_t row_of_a() const { return transpose_a ? m : k; }
    /// The length of a row of b in memory.
    GRADSTEP_INLINE std::size_t row_of_b() const { return transpose_b ? k : n; }
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
// Calls a function object of type F, which is in memory, or has no members.
template <class T, class F> struct matmul_caller {
    static constexpr bool is_copied = std::is_empty_v<F> && std::is_default_constructible_v<F>;

    static void call([[maybe_unused]] void const* object, matmul_call<T> const& x) {
        if constexpr (is_copied) F{}(x);
        else (*static_cast<F const*>(object))(x);
    }
    using pointer = void (*)(void const*, matmul_call<T> const&);
    // Null if F takes no products of T.
    GRADSTEP_INLINE static constexpr pointer of() {
        if constexpr (std::is_invocable_v<F const&, matmul_call<T> const&>) return &call;
        else return nullptr;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep {
/// How a rule multiplies matrices: by the built-in product, or by your function. A function takes
/// matmul_call<float>, matmul_call<double> or both:
///
///     gs::muon{.matmul = gs::blas_matmul}                                     // gradstep/adapt/blas.hpp
///     gs::muon{.matmul = [](gs::matmul_call<float> const& x) { my_gemm(x); }}
///
/// A lambda without captures is copied. Other function objects are referred to, and must outlive
/// the updater. Several threads can call the function at the same time. It must not throw: the step
/// passes its exception on, and leaves a part of the matrices updated.
///
/// The built-in product has the same bits with every backend, number of threads and instruction set
/// with multiply-adds, and uses the threads of the backend. A BLAS can be faster, above all with
/// large matrices on many cores. The bits of your function are its own.
class matrix_product {
public:
    /// The built-in product.
    matrix_product() = default;
    /// Your function.
    template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, matrix_product> &&
             (std::is_invocable_v<std::remove_cvref_t<F> const&, matmul_call<float> const&> ||
              std::is_invocable_v<std::remove_cvref_t<F> const&, matmul_call<double> const&>)) matrix_product(F&& f) {
        using function = std::remove_cvref_t<F>;
        constexpr bool is_copied = detail::matmul_caller<float, function>::is_copied;
        static_assert(is_copied || std::is_lvalue_reference_v<F>,
                      "gradstep: matmul: the function object is a temporary with captures, and must outlive the "
                      "updater; expected a variable, or a lambda without captures");
        if constexpr (!is_copied) object_ = &f;
        single_ = detail::matmul_caller<float, function>::of();
        double_ = detail::matmul_caller<double, function>::of();
        is_built_in_ = false;
    }

    /// Whether it is the built-in product.
    GRADSTEP_INLINE bool is_built_in() const { return is_built_in_; }
    /// Whether it multiplies matrices of T.
    template <class T> GRADSTEP_INLINE bool takes() const { return is_built_in_ || function_of<T>() != nullptr; }
    /// Calls your function.
    template <class T> GRADSTEP_INLINE void operator()(matmul_call<T> const& x) const { function_of<T>()(object_, x); }

private:
    template <class T> using function_type = void (*)(void const*, matmul_call<T> const&);

    template <class T> GRADSTEP_INLINE function_type<T> function_of() const {
        if constexpr (std::is_same_v<T, float>) return single_;
        else return double_;
    }

    void const* object_ = nullptr;
    function_type<float> single_ = nullptr;
    function_type<double> double_ = nullptr;
    bool is_built_in_ = true;
};
} // namespace gradstep
