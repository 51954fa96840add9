#pragma once
/// Lets you pass Armadillo's dense matrices, vectors and cubes as buffers, without a copy. One of
/// two headers that include Armadillo.
///
///     arma::fmat w, g, m, v;
///     step(w, g, m, v);
#include <armadillo>

#include <gradstep/memory/buffer.hpp>
#include <gradstep/policy/shape.hpp>

namespace gradstep::detail::armadillo::inline GRADSTEP_ISA {
template <class T> std::true_type is_dense(arma::Mat<T> const&);
template <class T> std::true_type is_dense(arma::Cube<T> const&);
std::false_type is_dense(...);
template <class T> std::true_type is_cube(arma::Cube<T> const&);
std::false_type is_cube(...);

// Mat, Col, Row, Cube, and their versions of fixed size.
template <class B> concept dense = decltype(is_dense(std::declval<B const&>()))::value;
template <class B> concept cube = decltype(is_cube(std::declval<B const&>()))::value;
// Views, expressions and sparse matrices.
template <class B>
concept other = !dense<B> && (arma::is_arma_type<B>::value || arma::is_arma_cube_type<B>::value ||
                              arma::is_arma_sparse_type<B>::value);

// Whether the order of the elements matters: not in a vector.
template <dense B> bool is_vector(B const& b) {
    if constexpr (cube<B>) return b.n_elem == b.n_rows || b.n_elem == b.n_cols || b.n_elem == b.n_slices;
    else return b.n_rows <= 1 || b.n_cols <= 1;
}
template <dense B> std::string shape_of(B const& b) {
    std::string out = detail::text(std::size_t{b.n_rows}) + " x " + detail::text(std::size_t{b.n_cols});
    if constexpr (cube<B>) out += " x " + detail::text(std::size_t{b.n_slices});
    return out;
}
template <class B> std::size_t slices_of(B const& b) {
    if constexpr (cube<B>) return b.n_slices;
    else return 1;
}
} // namespace gradstep::detail::armadillo::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
template <detail::armadillo::dense B> inline constexpr bool enable_range_buffer<B> = false;

/// Mat, Col, Row and Cube, also of fixed size, and over your memory
/// (`arma::mat(pointer, rows, columns, false, true)`). Throws size_error for a matrix of another
/// shape than the parameter. Elements are in column-major order. Throws buffer_error if the
/// parameter is another library's matrix in row-major order, or memory without a shape
/// (std::vector, gs::parameter), which counts as row-major. A vector has no order and fits any
/// parameter of its length: `arma::vectorise` copies,
/// `arma::fvec(x.memptr(), x.n_elem, false, true)` does not.
template <detail::armadillo::dense B> struct buffer_traits<B> {
    using memory_space = host_memory;
    static constexpr bool is_view = false;
    static constexpr bool is_container = true;

    template <class Buffer> static auto* data(Buffer& b) { return b.memptr(); }
    static std::size_t size(B const& b) { return b.n_elem; }
    /// The shape, for rules that need a matrix. Unknown for vectors and cubes.
    static gradstep::shape shape(B const& b) {
        if constexpr (detail::armadillo::cube<B> || B::is_col || B::is_row) return {};
        else return {std::size_t{b.n_rows}, std::size_t{b.n_cols}, memory_order::column_major};
    }
    template <class W> static void require_layout(B const& b, W const& weight) {
        using namespace detail::armadillo;
        if (is_vector(b)) return;
        if constexpr (dense<W>) {
            if (is_vector(weight) ||
                (b.n_rows == weight.n_rows && b.n_cols == weight.n_cols && slices_of(b) == slices_of(weight)))
                return;
            detail::fail<size_error>({"a buffer of ", shape_of(b)}, {"the parameter is ", shape_of(weight)},
                                     {"equal shapes"});
        } else {
            if constexpr (requires { detail::traits_of<W>::shape(weight); })
                if (detail::traits_of<W>::shape(weight).order == memory_order::column_major) return;
            detail::fail<buffer_error>(
                {"a buffer of ", shape_of(b)},
                {"it is column-major, and the parameter is row-major, as a parameter that does not know its shape"},
                {"equal layouts; arma::vec(x.memptr(), x.n_elem, false, true) is a vector in the order of memory"});
        }
    }
};

/// Views (`x.cols(0, 3)`, `x.row(0)`), expressions and sparse matrices: rejected with an
/// explanation.
template <detail::armadillo::other B> struct buffer_traits<B> {
    using memory_space = host_memory;

    template <class Buffer> static typename B::elem_type const* data(Buffer&) {
        static_assert(sizeof(Buffer) == 0, "gradstep: buffer: this is a view, an expression or a sparse matrix of "
                                           "Armadillo, whose elements may lie apart in memory; expected Mat, Col, Row "
                                           "or Cube; for whole columns, arma::mat(x.colptr(first), rows, columns, "
                                           "false, true)");
        return nullptr;
    }
    static std::size_t size(B const&) { return 0; }
};
} // namespace gradstep::inline GRADSTEP_ISA
