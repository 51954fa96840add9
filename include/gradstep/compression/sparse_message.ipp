#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/core/framed_bytes.hpp>
#include <gradstep/core/uninitialized.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE sparse_message& sparse_message::operator=(sparse_message const& other) {
    if (this == &other) return *this;
    detail::uninitialized_array<std::byte> body(other.body_bytes());
    if (other.body_.get() != nullptr) std::memcpy(body.get(), other.body_.get(), other.body_bytes());
    take_header(other);
    body_ = std::move(body);
    return *this;
}

GRADSTEP_DEFINE sparse_message& sparse_message::operator=(sparse_message&& other) noexcept {
    swap(other);
    return *this;
}

GRADSTEP_DEFINE std::vector<std::byte> sparse_message::encode() const {
    std::vector<std::byte> out(encoded_bytes());
    encode_to(out.data());
    return out;
}

GRADSTEP_DEFINE void sparse_message::encode(std::span<std::byte> out) const {
    if (out.size() < encoded_bytes())
        detail::fail<size_error>(
            {"encode: the memory has ", out.size(), " bytes: must have at least ", encoded_bytes()});
    encode_to(out.data());
}

GRADSTEP_DEFINE sparse_message sparse_message::decode(std::span<std::byte const> bytes) {
    detail::require_little_endian("sparse_message");
    if (bytes.size() < header_bytes)
        refuse({"has ", bytes.size(), " bytes: must have at least ", header_bytes, ", the header"});
    if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
        refuse({"does not begin with \"gradstep\": these are other bytes"});
    auto const byte = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
    if (byte(8) != version) refuse({"is of version ", byte(8), ": must be ", version});
    auto const type = detail::scalar_of_code(byte(9));
    if (!type || detail::is_integer(*type)) refuse({"has the element ", byte(9), ": must be 1 to 4"});
    if (byte(10) > 3 || byte(11) != 0) refuse({"has unknown flags: ", byte(10), " and ", byte(11)});

    sparse_message out;
    out.element_ = type;
    out.dense_ = (byte(10) & 1) != 0;
    out.size_ = load(bytes.data() + 16);
    out.step_ = load(bytes.data() + 24);
    out.count_ = load(bytes.data() + 32);
    if (out.size_ < 0 || out.step_ < 1)
        refuse({"is of step ", out.step_, " and a tensor of ", out.size_, " elements: must be >= 1 and >= 0"});
    if (out.is_wide() != ((byte(10) & 2) != 0))
        refuse({"says ", out.is_wide() ? "32" : "64", " bits of the indices of ", out.size_, " elements"});
    if (out.count_ < 0 || out.count_ > out.size_ || (out.dense_ && out.count_ != out.size_))
        refuse({"has ", out.count_, " entries of ", out.size_, " elements: must be ",
                out.dense_ ? "as many" : "at most as many"});
    std::size_t const body = bytes.size() - header_bytes;
    // By division first: a wrong count could overflow.
    if (out.count() > body / out.value_bytes() || out.values_at() + out.count() * out.value_bytes() != body)
        refuse({"has ", bytes.size(), " bytes: they are not those of ", out.count_, " entries"});
    std::uint32_t const sum = checksum(bytes.data(), bytes.size()), told = load<std::uint32_t>(bytes.data() + 12);
    if (sum != told) refuse({"has the checksum ", sum, ", and says ", told, ": it was changed on its way"});

    out.body_ = detail::uninitialized_array<std::byte>(body);
    std::memcpy(out.body_.get(), bytes.data() + header_bytes, body);
    if (!out.dense_) out.is_wide() ? out.check_indices<std::int64_t>() : out.check_indices<std::int32_t>();
    return out;
}

GRADSTEP_DEFINE void sparse_message::encode_to(std::byte* out) const {
    detail::require_little_endian("sparse_message");
    if (!element_) detail::fail<value_error>("encode: the message is empty");
    std::memcpy(out, magic.data(), magic.size());
    out[8] = std::byte(version);
    out[9] = std::byte(detail::info_of(*element_).code);
    out[10] = std::byte((dense_ ? 1 : 0) | (is_wide() ? 2 : 0));
    out[11] = std::byte(0);
    store(out + 16, size_);
    store(out + 24, step_);
    store(out + 32, count_);
    std::memcpy(out + header_bytes, body_.get(), body_bytes());
    store(out + 12, checksum(out, encoded_bytes()));
}

} // namespace GRADSTEP_ABI
} // namespace gradstep
