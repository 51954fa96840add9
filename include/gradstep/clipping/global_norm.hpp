#pragma once
#include <gradstep/clipping/detail/gradients.hpp>
#include <gradstep/number/detail/reduce.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The backend's own sum of the squares of elements times `scale`, or the sum of the block sums in
// order.
template <class Backend, class S>
double sum_of_squares(Backend const& backend, std::span<S const> x, double scale = 1) {
    if constexpr (requires { backend.sum_of_squares(x, scale); }) {
        return backend.sum_of_squares(x, scale);
    } else {
        require_reads<Backend>();
        return sum_of_blocks(x, scale);
    }
}

template <class Backend, class Buffer>
double sum_of_squares_in(Backend const& backend, Buffer const& gradient, double scale = 1) {
    if constexpr (has_gradient<Buffer>) {
        return sum_of_squares_in(backend, gradient_of(gradient), scale);
    } else if constexpr (has_gradients<Buffer>) {
        double sum = 0;
        for (auto const& one : gradient) sum += sum_of_squares_in(backend, one, scale);
        return sum;
    } else if constexpr (require_contiguous<Buffer const>()) {
        return sum_of_squares(backend, checked_gradient<Backend>(gradient), scale);
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// The Euclidean norm of all gradients together. Each argument is a buffer, a range of buffers, or
/// the slices of a model, and each can have its own element type:
/// `global_norm(backend, slices_of_floats, slices_of_bfloat16)`. Reads the gradients once, and
/// again if the squares of doubles overflow or vanish. Sums in double in a fixed order, so that the
/// bits are the same for any backend and number of threads. On a device it waits for the result.
/// Throws buffer_error for null.
template <class Backend, class First, class... Rest>
double global_norm(Backend const& backend, First const& first, Rest const&... rest) {
    return detail::root_of_squares([&](double scale) {
        double sum = detail::sum_of_squares_in(backend, first, scale);
        ((sum += detail::sum_of_squares_in(backend, rest, scale)), ...);
        return sum;
    });
}

/// The gradient_scale that clips gradients with this global norm to `limit`:  min(1, limit / norm).
/// Throws value_error unless limit > 0 and the norm is finite: scaling by the norm of a gradient
/// with NaN or infinity would spoil every weight.
inline double clip_scale(double norm, double limit) {
    if (!ranges::positive.contains(limit))
        detail::fail<value_error>({"clip_scale: limit"}, {limit, " is out of range"}, {ranges::positive.text});
    if (!ranges::non_negative.contains(norm))
        detail::fail<value_error>({"clip_scale: norm"}, {norm, " is out of range"},
                                  {ranges::non_negative.text, "; a gradient, or their norm, is not finite"});
    return norm <= limit ? 1 : limit / norm;
}
} // namespace gradstep::inline GRADSTEP_ISA
