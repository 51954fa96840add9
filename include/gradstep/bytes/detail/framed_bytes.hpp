#pragma once
#include <bit>
#include <cstring>
#include <optional>
#include <span>

#include <gradstep/base/error.hpp>
#include <gradstep/bytes/detail/crc32c.hpp>

// What all binary formats of the library share. All numbers are little-endian; a text is its length
// in 4 bytes and its characters. The bytes of every format begin with
//
//     0    8   letters that identify the format
//     8    4   of the format
//     12   4   CRC-32C of all other bytes
//
// State blobs, changes of keyed tables and agreements between ranks continue (`header`)
//
//     8    4   version
//     16   8   total number of bytes
//
// sparse_message, model_message and distributed/detail/wire.hpp describe their own headers.
namespace gradstep::detail::inline GRADSTEP_ABI {
inline constexpr std::size_t framed_header = 24;

// The checksum of all bytes except its own, 12 to 15. `seal` writes it there.
std::uint32_t framed_checksum(std::span<std::byte const> all);
void seal(std::span<std::byte> all);

// Writes to memory. If the memory is null, counts the bytes only.
class byte_writer {
public:
    explicit byte_writer(std::byte* to) : to_(to) {}
    std::size_t size() const { return at_; }
    // `seal` writes the checksum at the end.
    void header(std::string_view magic, std::uint32_t version, std::uint64_t size);
    void bytes(void const* from, std::size_t size) {
        if (to_ != nullptr && size != 0) std::memcpy(to_ + at_, from, size);
        at_ += size;
    }
    void skip(std::size_t size) { at_ += size; }
    template <class Number> void number(Number x) { bytes(&x, sizeof x); }
    void text(std::string_view x) {
        number(static_cast<std::uint32_t>(x.size()));
        bytes(x.data(), x.size());
    }
    void align();

private:
    std::byte* to_;
    std::size_t at_ = 0;
};

// Reads such bytes. Every number is checked against the available bytes, even if the checksum is
// right. Throws value_error for invalid bytes; the message begins with `what`, and the rank if the
// bytes come from one.
class byte_reader {
public:
    byte_reader(std::span<std::byte const> all, char const* what, std::optional<int> rank = {})
        : all_(all), what_(what), rank_(rank) {}

    // Checks that there are at least `header_bytes` bytes, and reads the letters.
    void begin(std::string_view magic, std::size_t header_bytes);
    // Check the version, the total number of bytes, and the checksum of all bytes or of the given
    // ones, with which they begin.
    void require_version(std::uint32_t given, std::uint32_t version) const;
    void require_size(std::uint64_t given) const;
    void require_checksum(std::uint32_t given) const { require_checksum(given, all_); }
    void require_checksum(std::uint32_t given, std::span<std::byte const> of) const;
    // Checks that nothing is left.
    void end() const;
    // Reads a whole header. Returns the version, from `oldest` to `version`.
    std::uint32_t header(std::string_view magic, std::uint32_t version, std::uint32_t oldest);
    void header(std::string_view magic, std::uint32_t version);
    std::size_t left() const { return all_.size() - at_; }
    std::span<std::byte const> take(std::size_t size);
    template <class Number> Number number() {
        Number x;
        std::memcpy(&x, take(sizeof x).data(), sizeof x);
        return x;
    }
    std::string text();
    std::uint64_t below(std::uint64_t end);
    std::uint8_t up_to(std::uint8_t most);
    bool flag() { return up_to(1) == 1; }
    void align();

    // "sparse_message::decode: the message has 3 bytes; expected at least 24, the header", of
    // `what` = "sparse_message::decode: the message" and `given` = "has 3 bytes".
    [[noreturn, gnu::cold]] void refuse(message_part given, message_part expected = {}) const;

private:
    std::span<std::byte const> all_;
    char const* what_;
    std::optional<int> rank_;
    std::size_t at_ = 0;
};

// Throws value_error on machines with another byte order.
inline void require_little_endian(char const* what) {
    if constexpr (std::endian::native != std::endian::little)
        fail<value_error>({what}, {"their bytes are little-endian, and this machine is not"},
                          {"a little-endian machine"});
    else static_cast<void>(what);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/bytes/detail/framed_bytes.ipp>
#endif
