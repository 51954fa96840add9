#pragma once
#include <cmath>
#include <ranges>
#include <span>
#include <type_traits>

#include <gradstep/core/buffer.hpp>
#include <gradstep/core/members.hpp>
#include <gradstep/core/reduce.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

template <class T> concept has_gradient = requires(T const& x) { x.gradient; };

// A range of buffers or slices. A concept, since `&&` in an `if constexpr` looks at both of its sides.
template <class T>
concept has_gradients = std::ranges::range<T> &&
    (has_gradient<std::ranges::range_value_t<T>> || contiguous_buffer<std::ranges::range_value_t<T>>);

// What a backend has no reduction of its own for is read here.
template <class Backend> constexpr void require_reads() {
    static_assert(std::is_same_v<typename Backend::memory_space, host_memory>,
                  "gradstep: a backend of a device needs `sum_of_squares(span)` and `find_nonfinite(span)` to be asked "
                  "for norms and for what is not finite");
}

// A buffer of a gradient as a span, which is null only if it is empty.
template <class Backend, class Buffer> auto checked_gradient(Buffer const& gradient) {
    using storage = std::remove_const_t<element_type<Buffer const>>;
    auto const x = as_span<storage const, typename Backend::memory_space>(gradient);
    if (x.data() == nullptr && !x.empty())
        detail::fail<buffer_error>("gradient is null: give " + text(x.size()) + " elements");
    return x;
}

// The backend's own sum, or that of the block sums in order.
template <class Backend, class S> double sum_of_squares(Backend const& backend, std::span<S const> x) {
    if constexpr (requires { backend.sum_of_squares(x); }) {
        return backend.sum_of_squares(x);
    } else {
        require_reads<Backend>();
        return sum_of_blocks(x);
    }
}

template <class Backend, class Buffer> double sum_of_squares_in(Backend const& backend, Buffer const& gradient) {
    if constexpr (has_gradient<Buffer>) {
        return sum_of_squares_in(backend, gradient.gradient);
    } else if constexpr (has_gradients<Buffer>) {
        double sum = 0;
        for (auto const& one : gradient) sum += sum_of_squares_in(backend, one);
        return sum;
    } else if constexpr (require_contiguous<Buffer const>()) {
        return sum_of_squares(backend, checked_gradient<Backend>(gradient));
    }
}

} // namespace detail

/// The Euclidean norm of all gradients together: one buffer, a range of buffers, or the slices of a model. One read of
/// the gradients, summed in double in a fixed order: the same bits for any backend and number of threads. On a device
/// it waits for the result.
template <class Backend, class Gradients> double global_norm(Backend const& backend, Gradients const& gradients) {
    return std::sqrt(detail::sum_of_squares_in(backend, gradients));
}

/// The gradient_scale that brings gradients of a global norm down to `limit`:  min(1, limit / norm).
/// Throws value_error unless limit > 0 and the norm is finite: scaling by the norm of an infinite or NaN gradient would
/// spoil every weight.
inline double clip_scale(double norm, double limit) {
    if (!ranges::positive.contains(limit))
        detail::fail<value_error>("clip_scale: limit = " + detail::text(limit) + ": must be " + ranges::positive.text);
    if (!ranges::non_negative.contains(norm))
        detail::fail<value_error>("clip_scale: norm = " + detail::text(norm) + ": must be " +
                                  ranges::non_negative.text + "; a gradient is not finite");
    return norm <= limit ? 1 : limit / norm;
}

} // namespace GRADSTEP_ISA
} // namespace gradstep
