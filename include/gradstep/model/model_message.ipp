#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/model/name_index.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE std::vector<std::byte> model_message::encode() const {
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

GRADSTEP_DEFINE model_message model_message::decode(std::span<std::byte const> bytes) {
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

GRADSTEP_DEFINE sparse_message const* model_message::find(std::uint64_t hash, std::size_t i) const {
    for (std::size_t k = 0; k != size(); ++k, ++i) {
        parameter const& each = parameters_[i % size()];
        if (each.hash == hash) return &each.message;
    }
    return nullptr;
}

GRADSTEP_DEFINE void model_message::refuse(std::initializer_list<detail::text_arg> why) {
    detail::fail<value_error>({"model_message::decode: the message ", detail::joined(why)});
}

} // namespace GRADSTEP_ABI
} // namespace gradstep
