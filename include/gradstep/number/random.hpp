#pragma once
#include <cstdint>

#include <gradstep/base/compiler.hpp>

namespace gradstep {
/// A counter or an output of Philox 4x32.
struct philox_words {
    std::uint32_t word[4];
};
} // namespace gradstep

namespace gradstep::inline GRADSTEP_ISA {
/// Philox 4x32 with 10 rounds: 128 random bits as a pure function of a counter and a key. A random
/// number thus belongs to an element, for any order and any threads. With one key, different
/// counters give different outputs. Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as
/// easy as 1, 2, 3".
///
///     ten times:   c <- (hi(M1 * c2) ^ c1 ^ k0,  lo(M1 * c2),  hi(M0 * c0) ^ c3 ^ k1,  lo(M0 * c0))
///                  k <- (k0 + W0, k1 + W1)
///
/// k0 is the low half of `key`. The bits equal Random123's known answers, on host and device.
GRADSTEP_HD constexpr philox_words philox4x32(philox_words counter, std::uint64_t key) {
    constexpr std::uint64_t multiplier0 = 0xd2511f53, multiplier1 = 0xcd9e8d57;
    constexpr std::uint32_t weyl0 = 0x9e3779b9, weyl1 = 0xbb67ae85;
    std::uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        std::uint64_t const product0 = multiplier0 * c0, product1 = multiplier1 * c2;
        c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<std::uint32_t>(product1);
        c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<std::uint32_t>(product0);
        k0 += weyl0;
        k1 += weyl1;
    }
    return {{c0, c1, c2, c3}};
}
} // namespace gradstep::inline GRADSTEP_ISA
