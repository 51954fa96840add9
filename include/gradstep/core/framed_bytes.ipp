#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <gradstep/core/crc32c.hpp>
#include <gradstep/core/error.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

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

GRADSTEP_DEFINE std::uint32_t byte_reader::header(std::string_view magic, std::uint32_t version, std::uint32_t oldest) {
    if (all_.size() < framed_header) refuse({"has ", all_.size(), " bytes: must have at least ", framed_header});
    if (std::memcmp(all_.data(), magic.data(), magic.size()) != 0)
        refuse({"does not begin with \"", magic, "\": these are other bytes"});
    at_ = magic.size();
    auto const own = number<std::uint32_t>();
    if (own < oldest || own > version) refuse({"is of version ", own, ": must be ", version});
    auto const told = number<std::uint32_t>();
    if (auto const size = number<std::uint64_t>(); size != all_.size())
        refuse({"has ", all_.size(), " bytes, and says ", size});
    if (std::uint32_t const sum = framed_checksum(all_); sum != told)
        refuse({"has the checksum ", sum, ", and says ", told, ": it was changed on its way"});
    return own;
}

GRADSTEP_DEFINE void byte_reader::header(std::string_view magic, std::uint32_t version) {
    header(magic, version, version);
}

GRADSTEP_DEFINE std::span<std::byte const> byte_reader::take(std::size_t size) {
    if (size > left()) refuse({"breaks off"});
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
    if (x >= end) refuse({"has the number ", x, " where it must be below ", end});
    return x;
}

GRADSTEP_DEFINE std::uint8_t byte_reader::up_to(std::uint8_t most) {
    auto const x = number<std::uint8_t>();
    if (x > most) refuse({"has the number ", std::uint32_t{x}, " where it must be at most ", std::uint32_t{most}});
    return x;
}

GRADSTEP_DEFINE void byte_reader::align() {
    for (std::byte const x : take((8 - at_ % 8) % 8))
        if (x != std::byte(0)) refuse({"has no zeros where it must have them"});
}

GRADSTEP_DEFINE void byte_reader::refuse(std::initializer_list<text_arg> why) const {
    fail<value_error>({what_, " ", joined(why)});
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
