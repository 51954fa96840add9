#pragma once
#include <gradstep/memory/buffer.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Norms and checks for NaN and infinity read a buffer, an object with a `gradient` (a slice), or a
// range of either.
template <class T> concept has_gradient = requires(T const& x) { x.gradient; };

// Returns the gradient. A slice first looks up where its container has its memory now.
template <has_gradient T> auto const& gradient_of(T const& x) {
    if constexpr (requires { x.follow(); }) x.follow();
    return x.gradient;
}

template <class T> using item_of = std::remove_cvref_t<decltype(*std::begin(std::declval<T const&>()))>;
// A concept, since `&&` in an `if constexpr` evaluates both sides.
template <class T> concept has_gradients = requires { typename item_of<T>; }
&&(has_gradient<item_of<T>> || contiguous_buffer<item_of<T>>);

// For backends that have no reduction of their own: the gradients are read on the host.
template <class Backend> constexpr void require_reads() {
    static_assert(std::is_same_v<typename Backend::memory_space, host_memory>,
                  "gradstep: backend of a device: it has no norms, and does not find NaN; expected "
                  "`sum_of_squares(span, scale)` and `find_nonfinite(span)`");
}

// A buffer of a gradient as a span, which is null only if it is empty.
template <class Backend, class Buffer> auto checked_gradient(Buffer const& gradient) {
    using storage = std::remove_const_t<element_type<Buffer const>>;
    auto const x = as_span<storage const, typename Backend::memory_space>(gradient);
    if (x.data() == nullptr && !x.empty())
        detail::fail<buffer_error>({"gradient"}, {"is null"}, {x.size(), " elements of memory"});
    return x;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
