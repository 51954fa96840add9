#pragma once
#include <cstdint>
#include <string_view>

#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Fibonacci hashing: x times 2^64 / golden ratio, modulo 2^64. A permutation. Use the high bits:
// they depend on all bits of x, and are far apart for consecutive x. It is not secret: ids can be
// chosen to collide. Knuth, The Art of Computer Programming, volume 3, section 6.4.
GRADSTEP_HD constexpr std::uint64_t fibonacci_hash(std::uint64_t x) { return x * 0x9e3779b97f4a7c15; }

// 64-bit FNV-1a: h = 0xcbf29ce484222325, then h = (h ^ byte) * 0x100000001b3 for each byte. Part of
// formats (model_message, stable_hash). RFC 9923. `hash` is the hash of the text before this one.
constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
    for (char const letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
    return hash;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
