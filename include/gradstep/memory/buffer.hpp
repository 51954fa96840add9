#pragma once
#include <iterator>
#include <memory>

#include <gradstep/base/error.hpp>
#include <gradstep/memory/detail/extent.hpp>
#include <gradstep/policy/concepts.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The memory space of buffers that any backend accepts, such as std::span, whose location is
/// unknown.
struct any_memory {};

/// How gradstep accesses your container as contiguous memory. Specialised here for contiguous
/// ranges (std::vector, std::array, std::span), in thrust/backend.hpp for Thrust's vectors and in
/// adapt/xtensor.hpp for xtensor. Specialise it for your own container:
///
///     using memory_space = host_memory;               // or device_memory, any_memory
///     static auto* data(B& b);  static std::size_t size(B const& b);
///     static void require_layout(B const& b, W const& weight);
///                                     // optional: throws if b does not pair with weight
///     static constexpr bool is_view = true;
///                                     // optional: B does not own the memory and can be a temporary
///     static constexpr bool is_container = false;
///                                     // optional: slices keep the address, not a reference to B
///
/// A slice refers to a variable that owns its elements, such as a std::vector, and looks up its
/// memory at every step. By default, this applies to a B that is not a view, is not trivially
/// copyable, and has no writable elements if it is const.
///
/// A gradient that is an expression has `static auto reader(B const& b, W const& weight)` instead
/// of `data`. It returns an object with `load<T>(i, all_lanes)`, which gives element i and is
/// called once for each element.
template <class B> struct buffer_traits;

/// Whether contiguous ranges of this type are buffers without another adapter. False for types that
/// also have a layout (xtensor).
template <class B> inline constexpr bool enable_range_buffer = true;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// The same as std::ranges::contiguous_range, without <ranges>, which every file would compile.
template <class B> concept contiguous_range = requires(B& b) {
    { std::begin(b) } -> std::contiguous_iterator;
    { std::end(b) - std::begin(b) } -> std::signed_integral;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
template <class B>
requires(detail::contiguous_range<B>&& enable_range_buffer<B>) struct buffer_traits<B> {
    using memory_space = host_memory;
    template <class Buffer> static auto* data(Buffer& b) {
        if constexpr (requires { std::data(b); }) return std::data(b);
        else return std::span(std::begin(b), std::end(b)).data();
    }
    template <class Buffer> static std::size_t size(Buffer const& b) {
        return static_cast<std::size_t>(std::end(b) - std::begin(b));
    }
};

template <class T, std::size_t N> struct buffer_traits<std::span<T, N>> {
    using memory_space = any_memory;
    static T* data(std::span<T, N> b) { return b.data(); }
    static std::size_t size(std::span<T, N> b) { return b.size(); }
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class B> using traits_of = buffer_traits<std::remove_cvref_t<B>>;

template <class B> concept contiguous_buffer = requires(std::remove_reference_t<B>& b) {
    traits_of<B>::data(b);
    traits_of<B>::size(b);
};
template <class B, class W> concept lazy_buffer = requires(B const& b, W const& w) { traits_of<B>::reader(b, w); };

// The type of the elements as the buffer returns them: const for read-only elements.
template <class B>
using element_type = std::remove_pointer_t<decltype(traits_of<B>::data(std::declval<std::remove_reference_t<B>&>()))>;

// Whether the buffer is writable; false for a type that is not a buffer.
template <class B> constexpr bool is_writable() {
    if constexpr (contiguous_buffer<B>) return !std::is_const_v<element_type<B>>;
    else return false;
}

// Whether B only refers to its memory, so that a temporary B is valid: a type with is_view, a
// borrowed range such as std::span, or a trivially copyable handle that has writable elements even
// if it is const.
template <class B> constexpr bool is_view() {
    using plain = std::remove_cvref_t<B>;
    if constexpr (requires { traits_of<B>::is_view; }) return traits_of<B>::is_view;
    else
        return std::ranges::enable_borrowed_range<plain> ||
               (std::is_trivially_copyable_v<plain> && is_writable<plain const>());
}

// Whether B (as in a forwarding reference) is a variable whose memory can move while the variable
// stays: a container that allocates its elements. Views, handles and arrays are not.
template <class B> constexpr bool is_container() {
    using plain = std::remove_cvref_t<B>;
    if constexpr (!std::is_lvalue_reference_v<B> || !contiguous_buffer<B>) return false;
    else if constexpr (requires { traits_of<B>::is_container; }) return traits_of<B>::is_container;
    else return !is_view<B>() && !std::is_trivially_copyable_v<plain> && !is_writable<plain const>();
}

// For forwarding references to buffers that are written or kept for a later call.
template <class... B> constexpr void require_lasting() {
    static_assert(((std::is_lvalue_reference_v<B> || !contiguous_buffer<B> || is_view<B>()) && ...),
                  "gradstep: buffer: the memory of a temporary is gone after this call, with the values written to it; "
                  "expected a variable, or a span or another view of memory that stays");
}

template <class B, class Space>
concept lives_in = std::is_same_v<typename traits_of<B>::memory_space, Space> ||
    std::is_same_v<typename traits_of<B>::memory_space, any_memory>;

template <class B> constexpr bool require_contiguous() {
    constexpr bool is_pointer = std::is_pointer_v<std::remove_cvref_t<B>>;
    static_assert(contiguous_buffer<B> || !is_pointer,
                  "gradstep: buffer: a raw pointer has no number of elements; expected std::span(pointer, size)");
    static_assert(contiguous_buffer<B> || is_pointer,
                  "gradstep: buffer: the type is not known as contiguous memory; expected std::vector, std::array, "
                  "std::span, or a type with gradstep::buffer_traits");
    return contiguous_buffer<B>;
}

// Returns p, and hides from the compiler which object it points to. Otherwise g++ inlines a kernel
// into a caller with a short array, and warns about packs beyond its end that are never accessed.
template <class T> GRADSTEP_INLINE T* unknown_origin(T* p) {
#if defined(__GNUC__)
    asm("" : "+r"(p));
#endif
    return p;
}

// Returns a buffer as a span over T (const or not). Explains each way in which it may not fit.
template <class T, class Space, class B> std::span<T> as_span(B& buffer) {
    if constexpr (require_contiguous<B>()) {
        using given = element_type<B>;
        static_assert(
            std::is_same_v<std::remove_const_t<given>, std::remove_const_t<T>>,
            "gradstep: buffer: its element type is not the type that the updater stores there; expected the same type");
        static_assert(std::is_const_v<T> || !std::is_const_v<given>,
                      "gradstep: buffer: the parameter or a state buffer is const; expected writable memory");
        static_assert(lives_in<B, Space>, "gradstep: buffer: it is in another memory than the backend; expected host "
                                          "containers for host backends, thrust::device_vector for CUDA");
        return {unknown_origin(traits_of<B>::data(buffer)), traits_of<B>::size(buffer)};
    }
}

// Throws if a buffer with a layout (xtensor) does not pair element by element with the parameter. A
// parameter without a layout is in row-major order.
template <class B, class W> void require_layout(B const& buffer, W const& weight) {
    if constexpr (requires { traits_of<B>::require_layout(buffer, weight); })
        traits_of<B>::require_layout(buffer, weight);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
// A reference to a container of any type, to ask where its memory is now. Null for other memory.
struct container_reference {
    void const* container = nullptr;
    std::pair<void const*, std::size_t> (*look)(void const*) = nullptr;

    // Its elements must be in row-major order; otherwise each look throws buffer_error.
    template <class B> static container_reference of(B& buffer) {
        return {std::addressof(buffer), [](void const* at) {
                    B& now = *static_cast<B*>(const_cast<void*>(at));
                    require_layout(now, std::span<std::byte const>());
                    void const* const data = traits_of<B>::data(now);
                    return std::pair(data, traits_of<B>::size(now));
                }};
    }
    std::pair<void const*, std::size_t> memory_now() const { return look(container); }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ISA {
// Sets every element of a backend's memory to `value`.
template <class Backend, class T> void fill(Backend const& backend, std::span<T> x, T value) {
    if constexpr (requires { backend.fill(x, value); }) {
        backend.fill(x, value);
    } else {
        static_assert(std::is_same_v<typename Backend::memory_space, host_memory>,
                      "gradstep: backend of a device: there is no `fill`; expected `fill(span, value)`");
        std::fill(x.begin(), x.end(), value);
    }
}

// Copies memory of a backend to other memory of the same length.
template <class Backend, class T> void copy(Backend const& backend, std::span<T const> from, std::span<T> to) {
    if constexpr (requires { backend.copy(from, to); }) {
        backend.copy(from, to);
    } else {
        static_assert(std::is_same_v<typename Backend::memory_space, host_memory>,
                      "gradstep: backend of a device: there is no `copy`; expected `copy(span from, span to)`");
        std::copy(from.begin(), from.end(), to.begin());
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
