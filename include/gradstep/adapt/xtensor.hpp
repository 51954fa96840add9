#pragma once
/// Lets you pass xtensor objects as buffers: containers, adaptors and contiguous views without a
/// copy, and lazy expressions as gradients. The only header that includes xtensor.
///
///     xt::xtensor<float, 2> w, m, v, residual;
///     step(w, residual * (1.0f / 32), m, v);
#include <vector>

#if __has_include(<xtensor/containers/xtensor.hpp>) // xtensor >= 0.26
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/core/xexpression.hpp>
#include <xtensor/core/xstrides.hpp>
#include <xtensor/views/xstrided_view.hpp>
#else
#include <xtensor/xexpression.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xstrides.hpp>
#include <xtensor/xtensor.hpp>
#endif

#include <gradstep/memory/buffer.hpp>
#include <gradstep/policy/shape.hpp>

namespace gradstep::detail::xtensor::inline GRADSTEP_ISA {
template <class B> concept expression = xt::is_xexpression<B>::value;
template <class B> concept in_memory = expression<B> && xt::has_data_interface<B>::value && xt::has_strides<B>::value;

// Whether an expression only refers to its elements: a view of such an expression or of a variable,
// or an adaptor of such memory.
template <class B> inline constexpr bool refers = false;
template <class Closure>
inline constexpr bool closes_over_reference = std::is_lvalue_reference_v<Closure> || refers<std::remove_cv_t<Closure>>;
template <class CT, class... S> inline constexpr bool refers<xt::xview<CT, S...>> = closes_over_reference<CT>;
template <class CT, class S, xt::layout_type L, class F>
inline constexpr bool refers<xt::xstrided_view<CT, S, L, F>> = closes_over_reference<CT>;
template <class P, class A> inline constexpr bool refers<xt::xbuffer_adaptor<P, xt::no_ownership, A>> = true;
template <class I, class ConstI> inline constexpr bool refers<xt::xiterator_adaptor<I, ConstI>> = true;
template <class C, xt::layout_type L, class S, class Tag>
inline constexpr bool refers<xt::xarray_adaptor<C, L, S, Tag>> = closes_over_reference<C>;
template <class C, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool refers<xt::xtensor_adaptor<C, N, L, Tag>> = closes_over_reference<C>;
template <class C, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool refers<xt::xtensor_view<C, N, L, Tag>> = closes_over_reference<C>;
template <class C, class S, xt::layout_type L, bool Shared, class Tag>
inline constexpr bool refers<xt::xfixed_adaptor<C, S, L, Shared, Tag>> = closes_over_reference<C>;

// Whether the type guarantees contiguous elements: a container in row-major or column-major order.
template <class B> inline constexpr bool whole = false;
template <class C, xt::layout_type L, class S, class Tag>
inline constexpr bool whole<xt::xarray_container<C, L, S, Tag>> =
    L == xt::layout_type::row_major || L == xt::layout_type::column_major;
template <class C, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool whole<xt::xtensor_container<C, N, L, Tag>> =
    L == xt::layout_type::row_major || L == xt::layout_type::column_major;

template <class Shape> std::string text_of(Shape const& shape) {
    std::string out;
    for (auto const n : shape) out += (out.empty() ? "" : ", ") + detail::text(static_cast<std::size_t>(n));
    return "(" + out + ")";
}

// The strides of a contiguous container of this shape and layout.
template <class Shape> std::vector<std::ptrdiff_t> strides_of(Shape const& shape, xt::layout_type layout) {
    std::vector<std::ptrdiff_t> strides(shape.size());
    xt::compute_strides(shape, layout, strides);
    return strides;
}

// Whether the elements are contiguous in this order; a dimension of size 1 can have any stride.
template <in_memory B> bool is_contiguous(B const& b, xt::layout_type layout) {
    auto const whole = strides_of(b.shape(), layout);
    for (std::size_t d = 0; d < b.dimension(); ++d)
        if (b.shape()[d] != 1 && static_cast<std::ptrdiff_t>(b.strides()[d]) != whole[d]) return false;
    return true;
}

// The order of a contiguous expression's elements: row-major if both orders are the same.
template <in_memory B> xt::layout_type layout_of(B const& b) {
    return is_contiguous(b, xt::layout_type::row_major) ? xt::layout_type::row_major : xt::layout_type::column_major;
}

// The order of a parameter's elements. Row-major for memory without a shape (std::vector,
// gs::parameter).
template <class W> xt::layout_type parameter_layout([[maybe_unused]] W const& weight) {
    if constexpr (in_memory<W>) return layout_of(weight);
    else return xt::layout_type::row_major;
}

// Computes the elements of a lazy expression one by one, in memory order.
template <class E> struct reader {
    E const* expression;
    template <pack T> T load(std::size_t i, all_lanes) const { return static_cast<T>(expression->data_element(i)); }
};

template <class E, class W> void require_shape(E const& e, W const& weight) {
    if constexpr (expression<W>)
        if (!std::equal(e.shape().begin(), e.shape().end(), weight.shape().begin(), weight.shape().end()))
            detail::fail<size_error>({"a buffer of shape ", text_of(e.shape())},
                                     {"the parameter has ", text_of(weight.shape())}, {"equal shapes"});
}
} // namespace gradstep::detail::xtensor::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
template <detail::xtensor::expression B> inline constexpr bool enable_range_buffer<B> = false;

/// Containers, adaptors, contiguous views. A slice refers to a container, since `x = expression`
/// gives it new memory. Throws buffer_error for a strided view, and if the elements have another
/// order (row-major, column-major) than the parameter. A std::vector, a gs::parameter and a
/// gs::model have no shape, and count as row-major. Throws size_error for another shape.
template <detail::xtensor::in_memory B> struct buffer_traits<B> {
    using memory_space = host_memory;
    static constexpr bool is_view = detail::xtensor::refers<B>;

    template <class Buffer> static auto* data(Buffer& b) {
        if (!detail::xtensor::whole<B> && !detail::xtensor::is_contiguous(b, detail::xtensor::layout_of(b)))
            detail::fail<buffer_error>({"a view of shape ", detail::xtensor::text_of(b.shape())}, {"is strided"},
                                       {"contiguous elements; copy it, or use a contiguous view"});
        return b.data() + b.data_offset();
    }
    static std::size_t size(B const& b) { return b.size(); }
    /// The shape, for rules that need a matrix: all dimensions after the first one are joined.
    /// Unknown with fewer than two dimensions, and with more in column-major order.
    static gradstep::shape shape(B const& b) {
        std::size_t const dimensions = b.dimension();
        if (dimensions < 2) return {};
        std::size_t const first = b.shape()[0];
        std::size_t const rest = b.size() == 0 ? 0 : b.size() / first;
        if (detail::xtensor::layout_of(b) == xt::layout_type::row_major) return {first, rest};
        if (dimensions > 2) return {}; // the joined dimensions would be in another order
        return {first, rest, memory_order::column_major};
    }
    template <class W> static void require_layout(B const& b, W const& weight) {
        detail::xtensor::require_shape(b, weight);
        if (!detail::xtensor::is_contiguous(b, detail::xtensor::parameter_layout(weight)))
            detail::fail<buffer_error>(
                {"a buffer of shape ", detail::xtensor::text_of(b.shape())},
                {"it and the parameter differ in layout: one is row-major (as a parameter that does not know its "
                 "shape), one column-major"},
                {"equal layouts"});
    }
};

/// Lazy expressions as gradients. They are computed block by block inside the update, never into a
/// full-size temporary. All operands must have the parameter's shape and layout (no broadcasting,
/// no strided operand, no reduction); otherwise it throws buffer_error. The expression can read the
/// parameter only at the element that it computes.
template <detail::xtensor::expression B>
requires(!detail::xtensor::in_memory<B>) struct buffer_traits<B> {
    using memory_space = host_memory;

    static std::size_t size(B const& b) { return b.size(); }
    template <class W> static auto reader(B const& b, W const& weight) {
        static_assert(
            requires { b.data_element(0); }, "gradstep: gradient: this lazy one cannot be read element by element; "
                                             "expected memory; evaluate it first, xt::eval(...)");
        detail::xtensor::require_shape(b, weight);
        auto const strides = detail::xtensor::strides_of(b.shape(), detail::xtensor::parameter_layout(weight));
        if (!b.has_linear_assign(strides))
            detail::fail<buffer_error>({"the lazy gradient of shape ", detail::xtensor::text_of(b.shape())},
                                       {"broadcasts, or differs in layout from the parameter"},
                                       {"memory; evaluate it first, xt::eval(...)"});
        return detail::xtensor::reader<B>{&b};
    }
};
} // namespace gradstep::inline GRADSTEP_ISA
