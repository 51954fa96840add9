#pragma once
#include <gradstep/base/compiler.hpp>
#include <gradstep/base/detail/hash.hpp>
#include <gradstep/base/error.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// A 64-bit hash that is the same on every system and in every version: for stored data, and to
/// assign keys to shards.
///
///     z = key + 0x9e3779b97f4a7c15                           all modulo 2^64
///     z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9
///     z = (z ^ z >> 27) * 0x94d049bb133111eb
///     hash = z ^ z >> 31
///
/// It is a permutation: different keys have different hashes. Every bit of the key changes every
/// bit of the hash with probability 1/2. It is not secret: with chosen keys, one can choose the
/// hashes. Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators": the output
/// of SplitMix64 with the state `key`.
GRADSTEP_HD constexpr std::uint64_t stable_hash(std::uint64_t key) {
    std::uint64_t z = key + 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/// The same for bytes, such as the text of a feature or the name of a parameter. It is
/// `stable_hash` of their 64-bit FNV-1a:
///
///     h = 0xcbf29ce484222325;   each byte, 0 to 255, in turn:   h = (h ^ byte) * 0x100000001b3         modulo 2^64
///
/// FNV-1a alone has similar high bits for short texts. Different texts collide about as often as
/// random numbers: of n texts, n^2 / 2^65 pairs. Fowler, Noll, Vo & Eastlake, RFC 9923.
constexpr std::uint64_t stable_hash(std::string_view text) { return stable_hash(detail::hash_of(text)); }
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// floor(hash * num_shards / 2^64)
constexpr std::uint32_t shard_of_hash(std::uint64_t hash, std::uint32_t num_shards) {
    if (num_shards == 0) fail<value_error>({"num_shards"}, {"0 is out of range"}, {"at least 1"});
    std::uint64_t const low = (hash & 0xffffffff) * num_shards;
    return static_cast<std::uint32_t>(((hash >> 32) * num_shards + (low >> 32)) >> 32);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// The shard of a key: floor(stable_hash(key) * num_shards / 2^64), in [0, num_shards). It
/// determines which server has a row. It is the same on every system and in every version. Shards
/// have equal sizes except for chance and one in 2^32. Throws value_error if num_shards is 0.
constexpr std::uint32_t shard_of(std::uint64_t key, std::uint32_t num_shards) {
    return detail::shard_of_hash(stable_hash(key), num_shards);
}
/// The same for a name, with the hash of its bytes.
constexpr std::uint32_t shard_of(std::string_view name, std::uint32_t num_shards) {
    return detail::shard_of_hash(stable_hash(name), num_shards);
}
} // namespace gradstep::inline GRADSTEP_ABI
