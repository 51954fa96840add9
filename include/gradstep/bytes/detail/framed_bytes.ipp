#pragma once
#include <algorithm>

#include <gradstep/bytes/detail/file_kind.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::uint32_t framed_checksum(std::span<std::byte const> all) {
    return crc32c(crc32c(0, all.data(), 12), all.data() + 16, all.size() - 16);
}

GRADSTEP_DEFINE void seal(std::span<std::byte> all) {
    std::uint32_t const sum = framed_checksum(all);
    std::memcpy(all.data() + 12, &sum, sizeof sum);
}

GRADSTEP_DEFINE void byte_writer::header(std::string_view magic, std::uint32_t version, std::uint64_t size) {
    bytes(magic.data(), magic.size());
    number(version);
    number(std::uint32_t{0});
    number(size);
}

GRADSTEP_DEFINE void byte_writer::align() {
    constexpr std::uint64_t zeros = 0;
    bytes(&zeros, (8 - at_ % 8) % 8);
}

GRADSTEP_DEFINE void byte_reader::begin(std::string_view magic, std::size_t header_bytes) {
    if (all_.size() < header_bytes)
        refuse({"has ", all_.size(), " bytes"}, {"at least ", header_bytes, ", the header"});
    if (std::memcmp(all_.data(), magic.data(), magic.size()) != 0) {
        std::string_view const kind = kind_of_file(all_.first(std::min(all_.size(), kind_bytes)));
        refuse({"begins with other bytes", kind.empty() ? "" : ": it is ", kind}, {"\"", magic, "\""});
    }
    at_ = magic.size();
}

GRADSTEP_DEFINE void byte_reader::require_version(std::uint32_t given, std::uint32_t version) const {
    if (given != version) refuse({"is of version ", given}, {version});
}

GRADSTEP_DEFINE void byte_reader::require_size(std::uint64_t given) const {
    if (given != all_.size()) refuse({"has ", all_.size(), " bytes"}, {given, ", as its header says"});
}

GRADSTEP_DEFINE void byte_reader::require_checksum(std::uint32_t given, std::span<std::byte const> of) const {
    if (std::uint32_t const sum = framed_checksum(of); sum != given)
        refuse({"has the checksum ", sum}, {given, ", as its header says: its bytes were changed"});
}

GRADSTEP_DEFINE void byte_reader::end() const {
    if (left() != 0) refuse({"has ", left(), " bytes too many"}, {"none after its end"});
}

GRADSTEP_DEFINE std::uint32_t byte_reader::header(std::string_view magic, std::uint32_t version, std::uint32_t oldest) {
    begin(magic, framed_header);
    auto const own = number<std::uint32_t>();
    if (own < oldest || own > version) require_version(own, version);
    auto const checksum = number<std::uint32_t>();
    require_size(number<std::uint64_t>());
    require_checksum(checksum);
    return own;
}

GRADSTEP_DEFINE void byte_reader::header(std::string_view magic, std::uint32_t version) {
    header(magic, version, version);
}

GRADSTEP_DEFINE std::span<std::byte const> byte_reader::take(std::size_t size) {
    if (size > left()) refuse({"breaks off at byte ", at_}, {size, " bytes more"});
    auto const out = all_.subspan(at_, size);
    at_ += size;
    return out;
}

GRADSTEP_DEFINE std::string byte_reader::text() {
    auto const of = take(number<std::uint32_t>());
    return {reinterpret_cast<char const*>(of.data()), of.size()};
}

GRADSTEP_DEFINE std::uint64_t byte_reader::below(std::uint64_t end) {
    auto const x = number<std::uint64_t>();
    if (x >= end) refuse({"has the number ", x}, {"below ", end});
    return x;
}

GRADSTEP_DEFINE std::uint8_t byte_reader::up_to(std::uint8_t most) {
    auto const x = number<std::uint8_t>();
    if (x > most) refuse({"has the number ", std::uint32_t{x}}, {"at most ", std::uint32_t{most}});
    return x;
}

GRADSTEP_DEFINE void byte_reader::align() {
    for (std::byte const x : take((8 - at_ % 8) % 8))
        if (x != std::byte(0)) refuse({"has a byte that is not 0 in the padding before byte ", at_}, {"zeros"});
}

GRADSTEP_DEFINE void byte_reader::refuse(message_part given, message_part expected) const {
    std::string const rank = rank_ ? " " + detail::text(*rank_) : "";
    throw_error<value_error>(
        joined({what_, rank, " ", joined(given), expected.size() == 0 ? "" : "; expected ", joined(expected)}));
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
