#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/bytes/detail/framed_bytes.hpp>

/// What the targets share: a target is a program of one file, which libFuzzer calls with bytes
/// until something is found.
namespace fuzz {

/// Inputs that the library itself writes, with the names of their files. The target's other inputs
/// are written by hand.
std::vector<std::pair<std::string, std::string>> written_seeds();

[[noreturn]] inline void found(std::string const& what) {
    std::fprintf(stderr, "found: %s\n", what.c_str());
    std::abort();
}
inline void require(bool holds, char const* what) {
    if (!holds) found(what);
}

/// A sentence for people and for programs in other languages: not empty, no longer than a few
/// lines, in UTF-8 without what a terminal would obey.
inline bool is_sentence(std::string_view text) {
    std::size_t following = 0;
    std::uint32_t letter = 0, least = 0;
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        if (following != 0) {
            if ((byte & 0xc0u) != 0x80u) return false;
            letter = letter << 6 | (byte & 0x3fu);
            if (--following == 0 && (letter < least || letter > 0x10ffff || (letter >= 0xd800 && letter < 0xe000)))
                return false;
        } else if (byte >= 0x80) {
            following = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
            if (byte < 0xc2 || byte > 0xf4) return false;
            letter = byte & (0x3fu >> following);
            least = following == 3 ? 0x10000 : following == 2 ? 0x800 : 0x80;
        } else if (byte < 0x20 || byte == 0x7f) {
            return false;
        }
    }
    return following == 0 && !text.empty() && text.size() < 1500;
}

/// Whether f() returns: what it throws must be a gradstep::error that says why.
template <class F> bool takes(F const& f) {
    try {
        f();
        return true;
    } catch (gradstep::error const& why) {
        if (!is_sentence(why.what())) found(std::string("an error that is no sentence: ") + why.what());
    } catch (std::exception const& other) {
        found(std::string("not a gradstep::error: ") + other.what());
    }
    return false;
}

/// Seeds that are never taken are stale: the run says so at its end.
class tally {
public:
    void count(bool taken) {
        if (all_++ == 0) std::atexit(&tally::check);
        taken_ += taken;
    }

private:
    static void check() {
        if (all_ < 1000 || taken_ != 0) return; // a single input may well be refused
        std::fprintf(stderr, "found: none of %llu inputs was taken: are the seeds those of this version?\n",
                     static_cast<unsigned long long>(all_));
        std::_Exit(1);
    }
    static inline std::uint64_t all_ = 0, taken_ = 0;
};

template <class T> std::string bytes_of(T const& memory) {
    auto const bytes = std::as_bytes(std::span(memory));
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

/// These bytes with the size and the checksum of framed bytes (bytes/detail/framed_bytes.hpp), without
/// which nothing behind them would be read.
inline std::vector<std::byte> sealed(std::span<std::uint8_t const> input) {
    auto const given = std::as_bytes(input);
    std::vector<std::byte> out(given.begin(), given.end());
    if (out.size() < gradstep::detail::framed_header) return out;
    std::uint64_t const size = out.size();
    std::memcpy(out.data() + 16, &size, sizeof size);
    gradstep::detail::seal(out);
    return out;
}

} // namespace fuzz

/// `fuzz_NAME --seeds FOLDER` writes the seeds, and ends.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
    if (*count != 3 || std::string_view((*arguments)[1]) != "--seeds") return 0;
    for (auto const& [name, bytes] : fuzz::written_seeds())
        std::ofstream((*arguments)[2] + ("/" + name), std::ios::binary) << bytes;
    std::exit(0);
}
