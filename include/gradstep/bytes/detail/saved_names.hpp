#pragma once
#include <span>

#include <gradstep/base/error.hpp>

// The names in files: NAME for the values of a parameter, NAME/SLOT for its state.
namespace gradstep::detail::inline GRADSTEP_ABI {
// Limits the header bytes of all parameters of a model, without the texts of their policies. It is
// half of the longest header (safetensors_header_limit).
inline constexpr std::uint64_t most_header_bytes = 2'000'000'000;

// Throws value_error for a name that no file can hold, or that another language cannot pass.
void require_storable_name(char const* call, std::string_view name);
[[noreturn, gnu::cold]] void refuse_meeting_names(char const* call, std::string_view name, std::string_view slot);

// Throws size_error if the shape does not have `size` elements.
void require_shape(std::string_view name, std::span<std::uint64_t const> extents, std::uint64_t size);

// An upper bound of the bytes that a parameter with `tensors` tensors adds to a header.
std::uint64_t header_bytes_of(std::string_view name, std::size_t tensors);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/bytes/detail/saved_names.ipp>
#endif
