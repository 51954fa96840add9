#pragma once
#include <tuple>

#include <gradstep/base/error.hpp>
#include <gradstep/memory/buffer.hpp>
#include <gradstep/number/scalar.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep {
template <>
inline constexpr auto enumerators<scalar> = [] {
    std::array<char const*, detail::scalar_table.size()> names{};
    for (std::size_t i = 0; i != names.size(); ++i) names[i] = detail::scalar_table[i].name;
    return names;
}();
} // namespace gradstep

namespace gradstep::inline GRADSTEP_ABI {
/// A span of host memory whose type is known at run time: `type`, `data`, and `size` in elements.
/// You can make it from any contiguous buffer; it keeps a reference, and `is_writable` is false for
/// a const buffer. If the buffer is a variable that owns its elements (a container), every call
/// that takes the span looks up the container's memory. You can assign and resize the container,
/// but the variable itself must not move.
struct any_span {
    scalar type = scalar::float32;
    void const* data = nullptr;
    std::size_t size = 0;
    bool is_writable = false;
    /// The container, if the buffer is a container.
    detail::container_reference container = {};

    any_span() = default;
    /// Refers to writable memory, or to read-only memory.
    any_span(scalar t, void* memory, std::size_t elements) : type(t), data(memory), size(elements), is_writable(true) {}
    any_span(scalar t, void const* memory, std::size_t elements) : type(t), data(memory), size(elements) {}
    /// Refers to a buffer. Throws buffer_error for a buffer whose layout is not row-major.
    template <class Buffer>
    requires(detail::contiguous_buffer<Buffer> && !std::is_same_v<std::remove_cvref_t<Buffer>, any_span>)
        any_span(Buffer&& buffer)
        : type(scalar_of<std::remove_const_t<detail::element_type<Buffer>>>()),
          data(detail::traits_of<Buffer>::data(buffer)), size(detail::traits_of<Buffer>::size(buffer)),
          is_writable(!std::is_const_v<detail::element_type<Buffer>>) {
        static_assert(detail::lives_in<Buffer, host_memory>,
                      "gradstep: any_span: the buffer is on a device; expected memory of the host");
        detail::require_layout(buffer, std::span<std::byte const>());
        if constexpr (detail::is_container<Buffer>()) container = detail::container_reference::of(buffer);
    }

    /// Returns the same span with the current memory of its container. Throws the errors of the
    /// constructor.
    any_span now() const {
        any_span out = *this;
        if (container.container != nullptr) std::tie(out.data, out.size) = container.memory_now();
        return out;
    }

    /// Returns the elements as a span of T. Throws value_error if they have another type.
    template <class T> std::span<T const> as() const {
        if (type != scalar_of<T>())
            detail::fail<value_error>({"any_span::as"}, {"the elements are of ", detail::enumerator(type)},
                                      {detail::enumerator(scalar_of<T>())});
        return {static_cast<T const*>(data), size};
    }
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// Whether the address is aligned for elements of this type.
inline bool is_aligned(void const* at, scalar type) {
    return (reinterpret_cast<std::uintptr_t>(at) & (size_of(type) - 1)) == 0;
}
inline bool is_aligned(any_span const& x) { return is_aligned(x.data, x.type); }
[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_alignment(std::string const& name, scalar type) {
    fail<buffer_error>({name}, {"is not aligned"},
                       {"an address that is a multiple of ", size_of(type), ", the bytes of an element"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
