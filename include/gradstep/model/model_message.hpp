#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/model/name_index.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// What a trainer sends of a whole model in one step: a sparse_message of each parameter, sparse or dense, found by a hash of its
/// name. Made by `model::compress`, or by `decode` from the bytes of another one's `encode`; read by `model::apply`.
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

    /// The number of parameters, `size()`, and the message of one by its name, `find`, null if there is none.
    std::size_t size() const { return parameters_.size(); }
    /// The message of the i-th.
    sparse_message const& operator[](std::size_t i) const { return parameters_[i].message; }
    sparse_message const* find(std::string_view name) const { return find(detail::hash_of(name), 0); }

    /// The message as bytes, for another process.
    std::vector<std::byte> encode() const {
        std::size_t bytes = header_bytes;
        for (parameter const& each : parameters_) bytes += 16 + padded(each.message.encoded_bytes());
        std::vector<std::byte> out(bytes); // zeros where nothing is written
        std::memcpy(out.data(), magic.data(), magic.size());
        sparse_message::store(out.data() + 8, static_cast<std::uint32_t>(size()));
        std::byte* at = out.data() + header_bytes;
        for (parameter const& each : parameters_) {
            std::size_t const length = each.message.encoded_bytes();
            sparse_message::store(at, each.hash);
            sparse_message::store(at + 8, static_cast<std::uint64_t>(length));
            each.message.encode_to(at + 16);
            at += 16 + padded(length);
        }
        sparse_message::store(out.data() + 12, sparse_message::checksum(out.data(), bytes));
        return out;
    }
    /// The message that `encode` has made these bytes of. Throws value_error where they are not.
    static model_message decode(std::span<std::byte const> bytes) {
        if (bytes.size() < header_bytes)
            refuse({"has ", bytes.size(), " bytes: must have at least ", header_bytes, ", the header"});
        if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
            refuse({"does not begin with \"gsmodel\" and version 1: these are other bytes"});
        std::uint32_t const sum = sparse_message::checksum(bytes.data(), bytes.size()),
                            told = sparse_message::load<std::uint32_t>(bytes.data() + 12);
        if (sum != told) refuse({"has the checksum ", sum, ", and says ", told, ": it was changed on its way"});
        model_message out;
        std::size_t at = header_bytes;
        for (std::uint32_t i = 0, count = sparse_message::load<std::uint32_t>(bytes.data() + 8); i != count; ++i) {
            if (bytes.size() - at < 16) refuse({"has the parameters ", i, " of ", count, " alone"});
            auto const length = sparse_message::load<std::uint64_t>(bytes.data() + at + 8);
            std::size_t const left = bytes.size() - at - 16;
            if (length > left || padded(length) > left)
                refuse({"has a message of ", length, " bytes, and ", left, " left"});
            out.push_back(sparse_message::load<std::uint64_t>(bytes.data() + at),
                          sparse_message::decode(bytes.subspan(at + 16, length)));
            for (std::byte const rest : bytes.subspan(at + 16 + length, padded(length) - length))
                if (rest != std::byte(0)) refuse({"has no zeros after a message of ", length, " bytes"});
            at += 16 + padded(length);
        }
        if (at != bytes.size()) refuse({"has ", bytes.size() - at, " bytes too many"});
        return out;
    }

private:
    friend class model;
    struct parameter {
        std::uint64_t hash;
        sparse_message message;
    };
    static constexpr std::string_view magic{"gsmodel\1", 8};

    void reserve(std::size_t count) { parameters_.reserve(count); }
    void push_back(std::uint64_t hash, sparse_message message) { parameters_.push_back({hash, std::move(message)}); }
    // Looks at parameter i first: models that were built alike have it there.
    sparse_message const* find(std::uint64_t hash, std::size_t i) const {
        for (std::size_t k = 0; k != size(); ++k, ++i) {
            parameter const& each = parameters_[i % size()];
            if (each.hash == hash) return &each.message;
        }
        return nullptr;
    }

    [[noreturn, gnu::cold, gnu::noinline]] static void refuse(std::initializer_list<detail::piece> why) {
        detail::fail<value_error>({"model_message::decode: the message ", detail::joined(why)});
    }
    static std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

    std::vector<parameter> parameters_;
};

} // namespace GRADSTEP_ABI
} // namespace gradstep
