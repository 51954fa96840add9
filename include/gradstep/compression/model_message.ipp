#pragma once

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::vector<std::byte> model_message::encode() const {
    std::size_t bytes = header_bytes;
    for (parameter const& each : parameters_) bytes += 16 + (each.message.encoded_bytes() + 7) / 8 * 8;
    std::vector<std::byte> out(bytes);
    detail::byte_writer to(out.data());
    to.bytes(magic.data(), magic.size());
    to.number(version);
    to.number(static_cast<std::uint32_t>(size()));
    to.number(std::uint32_t{0}); // the checksum
    for (parameter const& each : parameters_) {
        std::size_t const length = each.message.encoded_bytes();
        to.number(each.hash);
        to.number(std::uint64_t{length});
        each.message.encode(std::span(out).subspan(to.size()));
        to.skip(length);
        to.align();
    }
    detail::seal(out);
    return out;
}

GRADSTEP_DEFINE model_message model_message::decode(std::span<std::byte const> bytes) {
    detail::byte_reader from(bytes, "model_message::decode: the message");
    from.begin(magic, header_bytes);
    from.require_version(from.number<std::uint8_t>(), version);
    auto const count = from.number<std::uint32_t>();
    from.require_checksum(from.number<std::uint32_t>());
    model_message out;
    for (std::uint32_t i = 0; i != count; ++i) {
        if (from.left() < 16) from.refuse({"breaks off after ", i, " parameters"}, {count});
        auto const hash = from.number<std::uint64_t>(), length = from.number<std::uint64_t>();
        if (length > from.left())
            from.refuse({"has a message of ", length, " bytes"},
                        {"at most ", from.left(), ", the bytes that are left"});
        out.push_back(hash, sparse_message::decode(from.take(static_cast<std::size_t>(length))));
        from.align();
    }
    from.end();
    return out;
}

GRADSTEP_DEFINE sparse_message const* model_message::find(std::uint64_t hash, std::size_t i) const {
    for (std::size_t k = 0; k != size(); ++k, ++i) {
        parameter const& each = parameters_[i % size()];
        if (each.hash == hash) return &each.message;
    }
    return nullptr;
}
} // namespace gradstep::inline GRADSTEP_ABI
