#pragma once

namespace gradstep::inline GRADSTEP_ABI {
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
        detail::fail<size_error>({"encode"}, {"the memory has ", out.size(), " bytes"}, {"at least ", encoded_bytes()});
    encode_to(out.data());
}

GRADSTEP_DEFINE sparse_message sparse_message::decode(std::span<std::byte const> bytes) {
    detail::require_little_endian("sparse_message");
    detail::byte_reader from(bytes, "sparse_message::decode: the message");
    from.begin(magic, header_bytes);
    from.require_version(from.number<std::uint8_t>(), version);
    std::uint32_t const code = from.number<std::uint8_t>(), flags = from.number<std::uint8_t>(),
                        zero = from.number<std::uint8_t>();
    auto const type = detail::scalar_of_code(code);
    if (!type || detail::is_integer(*type)) from.refuse({"has the element ", code}, {"1 to 4"});
    if (flags > 3 || zero != 0) from.refuse({"has unknown flags: ", flags, " and ", zero}, {"0 to 3 and 0"});
    auto const checksum = from.number<std::uint32_t>();

    sparse_message out;
    out.element_ = type;
    out.dense_ = (flags & 1) != 0;
    for (std::int64_t* const to : {&out.size_, &out.step_, &out.count_}) *to = from.number<std::int64_t>();
    if (out.size_ < 0 || out.step_ < 1)
        from.refuse({"is of step ", out.step_, " and a tensor of ", out.size_, " elements"}, {">= 1 and >= 0"});
    if (out.is_wide() != ((flags & 2) != 0))
        from.refuse({"has indices of ", out.is_wide() ? "32" : "64", " bits for ", out.size_, " elements"},
                    {out.is_wide() ? "64" : "32", " bits"});
    if (out.count_ < 0 || out.count_ > out.size_ || (out.dense_ && out.count_ != out.size_))
        from.refuse({"has ", out.count_, " entries of ", out.size_, " elements"},
                    {out.dense_ ? "as many" : "at most as many"});
    // By division first: a wrong count could overflow.
    if (out.count() > from.left() / out.value_bytes() || out.body_bytes() != from.left())
        from.refuse({"has ", bytes.size(), " bytes"}, {"the bytes of its ", out.count_, " entries"});
    from.require_checksum(checksum);

    auto const body = from.take(from.left());
    out.body_ = detail::uninitialized_array<std::byte>(body.size());
    std::memcpy(out.body_.get(), body.data(), body.size());
    if (!out.dense_) out.is_wide() ? out.check_indices<std::int64_t>(from) : out.check_indices<std::int32_t>(from);
    return out;
}

GRADSTEP_DEFINE void sparse_message::encode_to(std::byte* out) const {
    detail::require_little_endian("sparse_message");
    if (!element_) detail::fail<value_error>({"encode"}, {"the message is empty"}, {"one from compress or decode"});
    detail::byte_writer to(out);
    to.bytes(magic.data(), magic.size());
    for (int const x : {version, int{detail::info_of(*element_).code}, (dense_ ? 1 : 0) | (is_wide() ? 2 : 0), 0})
        to.number(static_cast<std::uint8_t>(x));
    to.number(std::uint32_t{0}); // the checksum
    for (std::int64_t const x : {size_, step_, count_}) to.number(x);
    to.bytes(body_.get(), body_bytes());
    detail::seal({out, to.size()});
}
} // namespace gradstep::inline GRADSTEP_ABI
