#pragma once
#include <cstring>

// The processor has an instruction for it from SSE4.2 on. The definitions may be compiled for
// processors without.
#if defined(__x86_64__) && !defined(__CUDACC__)
#define GRADSTEP_DETAIL_CRC32C_INSTRUCTION 1
#include <nmmintrin.h>
#else
#define GRADSTEP_DETAIL_CRC32C_INSTRUCTION 0
#endif

namespace gradstep::detail::inline GRADSTEP_ABI {
#if GRADSTEP_DETAIL_CRC32C_INSTRUCTION

// With the processor's instruction. It takes eight bytes (in 64-bit programs only) and three
// cycles, but one can start every cycle: three stretches of a block are computed in parallel. They
// are combined by the change of a checksum after as many zeros as a stretch has bytes, which is
// linear in its bits (Gueron 2012, "CRC computation"; the same bits as the tables).
inline std::uint64_t eight_bytes(std::byte const* from) {
    std::uint64_t out;
    std::memcpy(&out, from, 8);
    return out;
}
struct crc32c_zeros {
    static constexpr std::size_t stretch = 1024;
    std::uint32_t of[4][256];

    [[gnu::target("sse4.2")]] crc32c_zeros() {
        for (std::size_t k = 0; k < 4; ++k) {
            of[k][0] = 0;
            for (std::size_t i = 0; i < 8; ++i) {
                std::uint64_t x = std::uint64_t{1} << (8 * k + i);
                for (std::size_t zeros = 0; zeros < stretch; zeros += 8) x = _mm_crc32_u64(x, 0);
                std::size_t const bit = std::size_t{1} << i;
                for (std::size_t lower = 0; lower < bit; ++lower)
                    of[k][bit + lower] = of[k][lower] ^ static_cast<std::uint32_t>(x);
            }
        }
    }
    std::uint32_t after(std::uint64_t x) const {
        return of[0][x & 255] ^ of[1][x >> 8 & 255] ^ of[2][x >> 16 & 255] ^ of[3][x >> 24 & 255];
    }
};
[[gnu::noinline, gnu::target("sse4.2")]] inline std::uint32_t crc32c_by_processor(std::uint32_t crc, std::byte const* p,
                                                                                  std::size_t size) {
    static crc32c_zeros const zeros;
    constexpr std::size_t stretch = crc32c_zeros::stretch;
    std::byte const* const end = p + size;
    std::uint64_t x = static_cast<std::uint32_t>(~crc);
    for (; static_cast<std::size_t>(end - p) >= 3 * stretch; p += 3 * stretch) {
        std::uint64_t second = 0, third = 0;
        for (std::size_t i = 0; i < stretch; i += 8) {
            x = _mm_crc32_u64(x, eight_bytes(p + i));
            second = _mm_crc32_u64(second, eight_bytes(p + stretch + i));
            third = _mm_crc32_u64(third, eight_bytes(p + 2 * stretch + i));
        }
        x = zeros.after(zeros.after(x) ^ second) ^ third;
    }
    for (; end - p >= 8; p += 8) x = _mm_crc32_u64(x, eight_bytes(p));
    for (; p != end; ++p) x = _mm_crc32_u8(static_cast<std::uint32_t>(x), static_cast<unsigned char>(*p));
    return ~static_cast<std::uint32_t>(x);
}

#endif

// With tables, eight bytes at a time.
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
[[gnu::noinline]] inline std::uint32_t crc32c_by_tables(std::uint32_t crc, std::byte const* p, std::size_t size) {
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

GRADSTEP_DEFINE std::uint32_t crc32c(std::uint32_t crc, std::byte const* p, std::size_t size) {
#if GRADSTEP_DETAIL_CRC32C_INSTRUCTION
    static bool const has_instruction = __builtin_cpu_supports("sse4.2");
    if (has_instruction) return crc32c_by_processor(crc, p, size);
#endif
    return crc32c_by_tables(crc, p, size);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
