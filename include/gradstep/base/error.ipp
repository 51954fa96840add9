#pragma once
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace gradstep::detail::inline GRADSTEP_ABI {
#if !GRADSTEP_EXCEPTIONS
GRADSTEP_DEFINE void abort_with(char const* sentence) {
    if (auto const handler = error_handling::current.load()) handler(sentence);
    std::fprintf(stderr, "%s\n", sentence);
    std::abort();
}
#endif

GRADSTEP_DEFINE void text_arg::append_to(std::string& out) const {
    auto const append = [&](auto x) {
        char digits[32]; // hold every int64 and every shortest double
        out.append(digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, x).ptr - digits));
    };
    switch (is) {
    case kind::text:
        out.append(text);
        return;
    case kind::floating:
        return append(floating);
    case kind::single:
        return append(single);
    default:
        bool const is_negative = is == kind::integer && integer < 0;
        std::uint64_t const number = is == kind::natural ? natural : static_cast<std::uint64_t>(integer);
        out.append(is_negative ? "-" : "");
        append(is_negative ? 0 - number : number);
    }
}

GRADSTEP_DEFINE std::string joined(std::initializer_list<text_arg> arguments) {
    std::string out;
    for (text_arg const& one : arguments) one.append_to(out);
    return out;
}

GRADSTEP_DEFINE std::string message(message_part where, message_part given, message_part expected) {
    std::string out = joined(where).append(": ").append(joined(given));
    if (expected.size() != 0) out.append("; expected ").append(joined(expected));
    return out;
}

GRADSTEP_DEFINE utf8_letter first_letter(std::string_view text) {
    auto const byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
    std::uint32_t const first = byte(0);
    if (first < 0x80) return {1, first, true};
    std::size_t const size = first < 0xc2 || first > 0xf4 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 1) return {};
    // Overlong encodings, UTF-16 surrogates and code points above U+10FFFF are invalid: the second
    // byte shows this.
    std::uint32_t const least = first == 0xe0   ? 0xa0
                                : first == 0xf0 ? 0x90
                                                : 0x80,
                        most = first == 0xed   ? 0x9f
                               : first == 0xf4 ? 0x8f
                                               : 0xbf;
    utf8_letter out{1, first & (0x7fu >> size)};
    for (; out.bytes < size; ++out.bytes) {
        if (out.bytes == text.size()) return out;
        std::uint32_t const next = byte(out.bytes);
        if (next < (out.bytes == 1 ? least : 0x80) || next > (out.bytes == 1 ? most : 0xbf)) return out;
        out.code = out.code << 6 | (next & 0x3fu);
    }
    out.is_valid = true;
    return out;
}

GRADSTEP_DEFINE bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        utf8_letter const letter = first_letter(text);
        if (!letter.is_valid) return false;
        text.remove_prefix(letter.bytes);
    }
    return true;
}

GRADSTEP_DEFINE std::string shortened(std::string_view text) {
    constexpr std::size_t most = 100;
    std::string out;
    while (!text.empty()) {
        utf8_letter const letter = first_letter(text);
        // 0x00 to 0x1f and 0x7f to 0x9f are not characters but commands to a terminal.
        bool const is_shown = letter.is_valid && letter.code >= 0x20 && (letter.code < 0x7f || letter.code > 0x9f);
        std::size_t const taken = is_shown ? letter.bytes : 1;
        if (out.size() + taken > most) return out + "...";
        out.append(is_shown ? text.substr(0, taken) : "?");
        text.remove_prefix(taken);
    }
    return out;
}

GRADSTEP_DEFINE std::string in_quotes(std::string_view text) { return "\"" + shortened(text) + "\""; }
} // namespace gradstep::detail::inline GRADSTEP_ABI
