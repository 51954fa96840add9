#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gradstep/core/config.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// The checksum CRC-32C (Castagnoli; RFC 3720, B.4), eight bytes at a time: crc32c(crc32c(0, a), b) is that of a and b.
struct crc32c_tables {
    std::uint32_t of[8][256];

    crc32c_tables() {
        for (std::uint32_t i = 0; i < 256; ++i) {
            std::uint32_t x = i;
            for (int bit = 0; bit < 8; ++bit) x = x >> 1 ^ (x & 1 ? 0x82f63b78u : 0);
            of[0][i] = x;
        }
        for (std::size_t k = 1; k < 8; ++k)
            for (std::size_t i = 0; i < 256; ++i) of[k][i] = of[k - 1][i] >> 8 ^ of[0][of[k - 1][i] & 255];
    }
};
[[gnu::noinline]] inline std::uint32_t crc32c(std::uint32_t crc, std::byte const* p, std::size_t size) {
    static crc32c_tables const table;
    std::byte const* const end = p + size;
    crc = ~crc;
    for (; end - p >= 8; p += 8) {
        std::uint32_t low, high;
        std::memcpy(&low, p, 4);
        std::memcpy(&high, p + 4, 4);
        low ^= crc;
        crc = table.of[7][low & 255] ^ table.of[6][low >> 8 & 255] ^ table.of[5][low >> 16 & 255] ^
              table.of[4][low >> 24] ^ table.of[3][high & 255] ^ table.of[2][high >> 8 & 255] ^
              table.of[1][high >> 16 & 255] ^ table.of[0][high >> 24];
    }
    for (; p != end; ++p) crc = crc >> 8 ^ table.of[0][(crc ^ static_cast<std::uint32_t>(*p)) & 255];
    return ~crc;
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
