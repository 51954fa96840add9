#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <gradstep/base/instruction_set.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// How many of the first bytes of a file kind_of_file looks at.
inline constexpr std::size_t kind_bytes = 128;

// What a file is by its first bytes, for errors of readers that expected another file: "an HDF5
// file". Empty if the kind is not known.
std::string_view kind_of_file(std::string_view beginning);
inline std::string_view kind_of_file(std::span<std::byte const> beginning) {
    return kind_of_file(std::string_view(reinterpret_cast<char const*>(beginning.data()), beginning.size()));
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/bytes/detail/file_kind.ipp>
#endif
