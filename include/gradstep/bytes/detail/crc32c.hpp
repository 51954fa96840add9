#pragma once
#include <cstddef>
#include <cstdint>

#include <gradstep/base/instruction_set.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The checksum CRC-32C (Castagnoli; RFC 3720, B.4): crc32c(crc32c(0, a), b) is the checksum of a
// and b.
std::uint32_t crc32c(std::uint32_t crc, std::byte const* p, std::size_t size);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/bytes/detail/crc32c.ipp>
#endif
