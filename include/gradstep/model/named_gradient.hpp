#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <gradstep/core/buffer.hpp>
#include <gradstep/core/type_id.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// A gradient and the name of its parameter: {"deep.weight", g}, g being any contiguous buffer, in
/// row-major order. It keeps references to both. If g is a variable that owns its elements, each
/// call looks up its memory: you can build a list once and use it for every step.
struct named_gradient {
    /// The `name`; the memory, its `data` and `size` in elements; the type of an element,
    /// `storage`, as gradstep compares it.
    std::string_view name;
    void const* data;
    std::size_t size;
    detail::type_id storage;
    /// What the buffer allows: whether it is writable, and where it may live.
    bool is_writable, may_be_host, may_be_device;
    /// The container, if it is one.
    detail::container_reference container = {};

    /// Throws buffer_error for a buffer with a layout that is not row-major.
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
    /// Whether it refers to a container.
    bool refers() const { return container.container != nullptr; }
    /// The same with the memory that its container has now. Throws as the constructor.
    named_gradient now() const {
        named_gradient out = *this;
        if (refers()) std::tie(out.data, out.size) = container.memory_now();
        return out;
    }
};

} // namespace GRADSTEP_ABI
} // namespace gradstep
