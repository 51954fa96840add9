#pragma once
#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/matrix/detail/plain_matmul.hpp>
#include <gradstep/number/detail/reduce.hpp>
#include <gradstep/policy/matrix_product.hpp>
#include <gradstep/policy/shape.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// x <- x / divisor
template <class T> struct divide_kernel {
    using traits = element_traits<T>;
    using gradient_type = void;

    T* weight; // sweep() aligns by it
    T divisor;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        io::store(weight + i, math::div(io::load(weight + i, which), V(divisor)), which);
    }
    template <std::size_t N> bool is_aligned() const { return detail::is_aligned<N>(weight); }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// The matrix of a step and what a matrix rule does with it in `transform`. The matrix is in
/// row-major order: for a parameter in column-major order it is the transpose.
template <class Compute, class Backend> class matrix_work {
public:
    /// The type of its elements: float or double.
    using compute = Compute;

    /// For matrix_step. `x` has the elements of the matrix, `rest` the memory of the rule, and
    /// `panels` the memory of the built-in product for `parts` threads.
    matrix_work(Backend const& backend, matrix_product const& product, gradstep::shape const& of, Compute* x,
                std::span<Compute> rest, Compute* panels, std::size_t parts)
        : backend_(backend), product_(product), shape_(of), x_(x), rest_(rest), panels_(panels), parts_(parts) {}

    /// The shape of the parameter.
    gradstep::shape const& shape() const { return shape_; }
    /// The number of rows of x.
    std::size_t rows() const { return shape_.memory_rows(); }
    /// The number of columns of x.
    std::size_t cols() const { return shape_.memory_cols(); }
    /// The number of elements of x.
    std::size_t size() const { return rows() * cols(); }
    /// The matrix.
    Compute* x() const { return x_; }
    /// The memory of work_size elements, with any contents.
    std::span<Compute> memory() const { return rest_; }
    /// Replaces x by other memory of the same size, from which `apply` then reads.
    void replace_x(Compute* by) { x_ = by; }

    /// Multiplies matrices: by the function of the rule, or by the built-in product.
    void multiply(matmul_call<Compute> const& call) const {
        if (product_.is_built_in()) detail::multiply_plainly(backend_, call, panels_, parts_);
        else product_(call);
    }
    /// The root of the sum of the squares of x, added in double in a fixed order.
    double norm() const {
        return detail::root_of_squares(
            [&](double scale) { return backend_.sum_of_squares(std::span<Compute const>(x_, size()), scale); });
    }
    /// Divides x by a number.
    void divide(Compute divisor) const {
        detail::run_single(backend_, detail::divide_kernel<Compute>{x_, divisor}, size(), 2 * sizeof(Compute));
    }
    /// Copies n elements.
    void copy(Compute const* from, Compute* to, std::size_t n) const {
        if (n != 0) std::memcpy(to, from, n * sizeof(Compute));
    }

private:
    Backend const& backend_;
    matrix_product const& product_;
    gradstep::shape shape_;
    Compute* x_;
    std::span<Compute> rest_;
    Compute* panels_;
    std::size_t parts_;
};
} // namespace gradstep::inline GRADSTEP_ISA
