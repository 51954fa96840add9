#pragma once
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/model/detail/name_index.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// The message of a model that a worker sends in one step. It contains a sparse_message for each
/// parameter, sparse or dense, with a hash of the parameter's name. `compressed_model::compress`
/// makes it, and so does `decode` from the bytes of `encode`. `compressed_model::apply` reads it.
///
/// The bytes. All numbers are little-endian:
///
///     0    7   the letters "gsmodel"
///     7    1   version: 1
///     8    4   number of parameters
///     12   4   CRC-32C of all other bytes
///     16       for each parameter: 8 bytes, FNV-1a of its name; 8 bytes, the length of its
///              message; the message; zeros up to a multiple of 8
class model_message {
public:
    /// The size of the header in bytes.
    static constexpr std::size_t header_bytes = 16;

    /// The number of parameters.
    std::size_t size() const { return parameters_.size(); }
    /// The message of parameter i.
    sparse_message const& operator[](std::size_t i) const { return parameters_[i].message; }
    /// The message of the parameter with this name, or null if there is none.
    sparse_message const* find(std::string_view name) const { return find(detail::hash_of(name), 0); }
    /// Returns the message of a parameter by the hash of its name, or null. It tries index i first,
    /// where models with the same parameters in the same order have it.
    sparse_message const* find(std::uint64_t hash, std::size_t i) const;
    /// Adds the message of another parameter.
    void push_back(std::uint64_t hash, sparse_message message) { parameters_.push_back({hash, std::move(message)}); }
    /// Allocates the memory for `count` messages.
    void reserve(std::size_t count) { parameters_.reserve(count); }

    /// Returns the message as bytes, for another process.
    std::vector<std::byte> encode() const;
    /// Returns the message from bytes that `encode` made. Throws value_error for other bytes.
    static model_message decode(std::span<std::byte const> bytes);

private:
    struct parameter {
        std::uint64_t hash;
        sparse_message message;
    };
    static constexpr std::string_view magic = "gsmodel";
    static constexpr std::uint8_t version = 1;

    std::vector<parameter> parameters_;
};
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/compression/model_message.ipp>
#endif
