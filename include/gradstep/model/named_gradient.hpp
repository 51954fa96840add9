#pragma once
#include <tuple>

#include <gradstep/base/detail/type_id.hpp>
#include <gradstep/memory/buffer.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// A gradient and the name of its parameter: {"deep.weight", g}. g is any contiguous buffer in
/// row-major order. The object refers to both. If g is a variable that owns its elements, each call
/// looks up its memory: you can build a list once and use it for every step.
struct named_gradient {
    /// The `name`; the memory, as `data` and `size` in elements; and the type of an element,
    /// `storage`, as gradstep compares it.
    std::string_view name;
    void const* data;
    std::size_t size;
    detail::type_id storage;
    /// Whether the buffer is writable, and in which memory it can be.
    bool is_writable, may_be_host, may_be_device;
    /// The container, if the buffer is one.
    detail::container_reference container = {};

    /// Refers to a gradient. Throws buffer_error for a buffer whose layout is not row-major.
    template <class Buffer>
    requires(detail::contiguous_buffer<Buffer>) named_gradient(std::string_view parameter_name, Buffer&& gradient)
        : name(parameter_name), data(detail::traits_of<Buffer>::data(gradient)),
          size(detail::traits_of<Buffer>::size(gradient)),
          storage(detail::type_id_of<std::remove_const_t<detail::element_type<Buffer>>>()),
          is_writable(!std::is_const_v<detail::element_type<Buffer>>),
          may_be_host(detail::lives_in<Buffer, host_memory>), may_be_device(detail::lives_in<Buffer, device_memory>) {
        detail::require_layout(gradient, std::span<std::byte const>());
        if constexpr (detail::is_container<Buffer>()) container = detail::container_reference::of(gradient);
    }
    /// Whether the gradient is a container, whose memory each call looks up.
    bool refers() const { return container.container != nullptr; }
    /// Returns the same gradient with the current memory of its container. Throws the errors of the
    /// constructor.
    named_gradient now() const {
        named_gradient out = *this;
        if (refers()) std::tie(out.data, out.size) = container.memory_now();
        return out;
    }
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// Throws unless the values of new rows are of this type, which `element` has, and in host memory.
GRADSTEP_INLINE void require_added(named_gradient const& values, type_id storage, char const* element) {
    if (values.storage != storage)
        fail<value_error>({"append"}, {"the values are of another type than the parameter"},
                          {"the type that ", element, " has in memory"});
    if (!values.may_be_host) fail<buffer_error>({"append"}, {"the values are in memory of a device"}, {"host memory"});
    if (values.data == nullptr && values.size != 0)
        fail<buffer_error>({"append"}, {"values is null"}, {values.size, " elements of memory"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
