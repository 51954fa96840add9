#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/model/name_index.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// What a trainer sends of a whole model in one step: a sparse_message of each parameter, sparse or
/// dense, found by a hash of its name. Made by `model::compress`, or by `decode` from the bytes of
/// another one's `encode`; read by `model::apply`.
///
/// As bytes, all numbers little-endian:
///
///     0    7   the letters "gsmodel"
///     7    1   version: 1
///     8    4   parameters
///     12   4   CRC-32C of all other bytes
///     16       of each parameter: 8 bytes, FNV-1a of its name; 8, the length of its message; the message; zeros up to a multiple of 8
class model_message {
public:
    /// The header's bytes.
    static constexpr std::size_t header_bytes = 16;

    /// The number of parameters, `size()`, and the message of one by its name, `find`, null if
    /// there is none.
    std::size_t size() const { return parameters_.size(); }
    /// The message of the i-th.
    sparse_message const& operator[](std::size_t i) const { return parameters_[i].message; }
    sparse_message const* find(std::string_view name) const { return find(detail::hash_of(name), 0); }

    /// The message as bytes, for another process.
    std::vector<std::byte> encode() const;
    /// The message that `encode` has made these bytes of. Throws value_error where they are not.
    static model_message decode(std::span<std::byte const> bytes);

private:
    friend class model;
    struct parameter {
        std::uint64_t hash;
        sparse_message message;
    };
    static constexpr std::string_view magic = "gsmodel";
    static constexpr std::uint8_t version = 1;

    void reserve(std::size_t count) { parameters_.reserve(count); }
    void push_back(std::uint64_t hash, sparse_message message) { parameters_.push_back({hash, std::move(message)}); }
    // Looks at parameter i first: models that were built alike have it there.
    sparse_message const* find(std::uint64_t hash, std::size_t i) const;

    std::vector<parameter> parameters_;
};

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/model_message.ipp>
#endif
