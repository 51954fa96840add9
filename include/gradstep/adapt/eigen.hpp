#pragma once
/// Lets you pass Eigen objects as buffers: matrices, arrays and vectors, maps, references and
/// contiguous blocks, without a copy. The only header that includes Eigen.
///
///     Eigen::MatrixXf w, g, m, v;
///     step(w, g, m, v);
#include <Eigen/Core>

#include <gradstep/memory/buffer.hpp>
#include <gradstep/policy/matrix_product.hpp>
#include <gradstep/policy/shape.hpp>

namespace gradstep::detail::eigen::inline GRADSTEP_ISA {
template <class D> void as_dense(Eigen::DenseBase<D> const&);
template <class D> void as_plain(Eigen::PlainObjectBase<D> const&);
template <class B> concept expression = requires(B const& b) { as_dense(b); };
template <class B> concept in_memory = expression<B> &&(static_cast<unsigned>(B::Flags) & Eigen::DirectAccessBit) != 0;

// Whether an object owns its elements. A Ref to const may own a copy of its source.
template <class B> inline constexpr bool holds_elements = requires(B const& b) { as_plain(b); };
template <class P, int Options, class Stride>
inline constexpr bool holds_elements<Eigen::Ref<P const, Options, Stride>> = true;

enum class order { row_major, column_major, either }; // either: a vector

template <expression B> order order_of(B const& b) {
    if (b.rows() <= 1 || b.cols() <= 1) return order::either;
    return B::IsRowMajor ? order::row_major : order::column_major;
}

// The order of the parameter. Row-major for memory without a shape (std::vector, gs::parameter).
template <class W> order parameter_order([[maybe_unused]] W const& weight) {
    if constexpr (expression<W>) return order_of(weight);
    else return order::row_major;
}

template <expression B> std::string shape_of(B const& b) {
    return detail::text(static_cast<std::size_t>(b.rows())) + " x " + detail::text(static_cast<std::size_t>(b.cols()));
}

template <in_memory B> bool is_contiguous(B const& b) {
    return (b.innerSize() <= 1 || b.innerStride() == 1) && (b.outerSize() <= 1 || b.outerStride() == b.innerSize());
}
} // namespace gradstep::detail::eigen::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
template <detail::eigen::expression B> inline constexpr bool enable_range_buffer<B> = false;

/// Matrices, arrays, vectors; maps, references, blocks of whole columns (column-major) or rows
/// (row-major), segments. Throws buffer_error if the elements are not contiguous, or if a matrix
/// has another order (row-major, column-major) than the parameter. The order is row-major for a
/// std::vector, a gs::parameter and a gs::model, which have no shape. Throws size_error for a
/// matrix of another shape. A vector has no order and fits any parameter of its length:
/// `x.reshaped()` is a vector over the memory of a column-major matrix.
template <detail::eigen::in_memory B> struct buffer_traits<B> {
    using memory_space = host_memory;
    static constexpr bool is_view = !detail::eigen::holds_elements<B>;
    // A slice does not refer to a Ref to const: it is often a function parameter, and ends before
    // the slice.
    static constexpr bool is_container = requires(B const& b) { detail::eigen::as_plain(b); };

    template <class Buffer> static auto* data(Buffer& b) {
        if (!detail::eigen::is_contiguous(b))
            detail::fail<buffer_error>({"a block or map of ", detail::eigen::shape_of(b)}, {"is strided"},
                                       {"contiguous elements; copy it, or use whole columns (of a row-major matrix "
                                        "whole rows)"});
        return b.data();
    }
    static std::size_t size(B const& b) { return static_cast<std::size_t>(b.size()); }
    /// The shape, for rules that need a matrix. Unknown for vectors.
    static gradstep::shape shape(B const& b) {
        if constexpr (B::IsVectorAtCompileTime) return {};
        return {static_cast<std::size_t>(b.rows()), static_cast<std::size_t>(b.cols()),
                B::IsRowMajor ? memory_order::row_major : memory_order::column_major};
    }
    template <class W> static void require_layout(B const& b, W const& weight) {
        using detail::eigen::order;
        order const here = detail::eigen::order_of(b), there = detail::eigen::parameter_order(weight);
        if (here == order::either || there == order::either) return;
        if constexpr (detail::eigen::expression<W>)
            if (b.rows() != weight.rows() || b.cols() != weight.cols())
                detail::fail<size_error>({"a buffer of ", detail::eigen::shape_of(b)},
                                         {"the parameter is ", detail::eigen::shape_of(weight)}, {"equal shapes"});
        if (here != there)
            detail::fail<buffer_error>(
                {"a buffer of ", detail::eigen::shape_of(b)},
                {"it and the parameter differ in layout: one is row-major (as a parameter that does not know its "
                 "shape), one column-major"},
                {"equal layouts; x.reshaped() is a vector in the order of memory"});
    }
};

/// An expression without memory: rejected with an explanation.
template <detail::eigen::expression B>
requires(!detail::eigen::in_memory<B>) struct buffer_traits<B> {
    using memory_space = host_memory;

    template <class Buffer> static typename B::Scalar const* data(Buffer&) {
        static_assert(sizeof(Buffer) == 0, "gradstep: buffer: this Eigen expression has no memory; expected a matrix, "
                                           "array, block or map; evaluate it first, x.eval()");
        return nullptr;
    }
    static std::size_t size(B const& b) { return static_cast<std::size_t>(b.size()); }
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
struct eigen_product {
    template <class T> void operator()(matmul_call<T> const& x) const {
        using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
        auto const number = [](std::size_t n) { return static_cast<Eigen::Index>(n); };
        Eigen::Map<matrix const> const a(x.a, number(x.transpose_a ? x.k : x.m), number(x.row_of_a()));
        Eigen::Map<matrix const> const b(x.b, number(x.transpose_b ? x.n : x.k), number(x.row_of_b()));
        Eigen::Map<matrix> c(x.c, number(x.m), number(x.n));
        if (x.beta == T(0)) c.setZero();
        else c *= x.beta;
        if (x.transpose_a && x.transpose_b) c.noalias() += x.alpha * a.transpose() * b.transpose();
        else if (x.transpose_a) c.noalias() += x.alpha * a.transpose() * b;
        else if (x.transpose_b) c.noalias() += x.alpha * a * b.transpose();
        else c.noalias() += x.alpha * a * b;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// Multiplies matrices of float or double by Eigen, for rules that need products:
/// gs::muon{.matmul = gs::eigen_matmul}. Products larger than Eigen's blocks allocate memory.
inline constexpr detail::eigen_product eigen_matmul{};
} // namespace gradstep::inline GRADSTEP_ISA
