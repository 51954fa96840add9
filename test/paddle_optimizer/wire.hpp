#pragma once
/// Messages of Protocol Buffers, byte by byte: the tests share no line with the library's .proto
/// file.

#include <cstdint>
#include <cstring>
#include <string>

namespace wire {

class message {
public:
    message& number(int field, double x) {
        tag(field, 1);
        std::uint64_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        for (int i = 0; i < 8; ++i, bits >>= 8) bytes_ += static_cast<char>(bits & 0xff);
        return *this;
    }
    message& integer(int field, std::uint64_t x) {
        tag(field, 0);
        varint(x);
        return *this;
    }
    message& text(int field, std::string const& x) {
        tag(field, 2);
        varint(x.size());
        bytes_ += x;
        return *this;
    }
    message& inside(int field, message const& x) { return text(field, x.bytes_); }

    std::string const& bytes() const { return bytes_; }

private:
    std::string bytes_;

    void tag(int field, std::uint64_t type) { varint(static_cast<std::uint64_t>(field) << 3 | type); }
    void varint(std::uint64_t x) {
        for (; x > 0x7f; x >>= 7) bytes_ += static_cast<char>((x & 0x7f) | 0x80);
        bytes_ += static_cast<char>(x);
    }
};

} // namespace wire
