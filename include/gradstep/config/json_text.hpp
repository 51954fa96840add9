#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#if !defined(__cpp_lib_to_chars)
#include <cstdlib>
#include <locale.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif
#endif

#include <gradstep/core/error.hpp>

// The text of JSON (RFC 8259), read event by event and written value by value. Nothing here looks at the locale of the process,
// a text ends where its bytes end, and a number that no double or 64-bit integer can hold is an error.
namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// --- numbers -----------------------------------------------------------------------------------------------------------

// The double that a number of JSON stands for; none where it would be infinite, or 0 without being it.
inline std::optional<double> double_of(std::string_view number) {
    double out = 0;
#if defined(__cpp_lib_to_chars)
    if (std::from_chars(number.data(), number.data() + number.size(), out).ec != std::errc()) return std::nullopt;
#else // the only other function that takes a locale: that of C
    static ::locale_t const of_c = ::newlocale(LC_ALL_MASK, "C", nullptr);
    out = ::strtod_l(std::string(number).c_str(), nullptr, of_c);
#endif
    bool const is_zero = number.substr(0, number.find_first_of("eE")).find_first_of("123456789") == number.npos;
    if (!std::isfinite(out) || (out == 0 && !is_zero)) return std::nullopt;
    return out;
}

// The whole number that a number of JSON with a point or an exponent is exactly, as 1e4 or 2.0, up to 2^53. Beyond it a text that
// was made of a double does not say which number was meant.
inline std::optional<std::uint64_t> whole_number_of(std::string_view number) {
    constexpr std::uint64_t limit = std::uint64_t{1} << 53;
    std::size_t const e = std::min(number.find_first_of("eE"), number.size());
    std::int64_t exponent = 0;
    if (e != number.size()) {
        std::string_view power = number.substr(e + 1);
        if (power.starts_with('+')) power.remove_prefix(1);
        if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec != std::errc()) return std::nullopt;
    }
    std::string digits;
    bool behind_point = false;
    for (char const c : number.substr(0, e)) {
        if (c == '.') behind_point = true;
        else if (c != '-') {
            digits += c;
            if (behind_point && exponent-- == INT64_MIN) return std::nullopt;
        }
    }
    while (!digits.empty() && digits.back() == '0') { // value = digits * 10^exponent
        digits.pop_back();
        if (exponent++ == INT64_MAX) return std::nullopt;
    }
    if (digits.empty()) return 0;
    if (exponent < 0 || exponent > 16) return std::nullopt;
    digits.append(static_cast<std::size_t>(exponent), '0');
    std::uint64_t out = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), out).ec != std::errc()) return std::nullopt;
    return out <= limit ? std::optional(out) : std::nullopt;
}

// The shortest digits that give the same double, always with a point or an exponent; null where it is not finite.
inline void append_json(std::string& out, double x) {
    if (!std::isfinite(x)) {
        out += "null";
        return;
    }
    char text[32];
    auto const end = std::to_chars(text, text + sizeof text, x, std::chars_format::scientific).ptr;
    std::string_view all(text, static_cast<std::size_t>(end - text));
    if (all.starts_with('-')) out += '-', all.remove_prefix(1);
    std::size_t const e = all.find('e');
    int exponent = 0; // of the first digit
    std::string_view power = all.substr(e + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    std::from_chars(power.data(), power.data() + power.size(), exponent);
    std::string digits(all.substr(0, 1));
    if (e > 1) digits += all.substr(2, e - 2);
    int const count = static_cast<int>(digits.size()), before_point = exponent + 1;
    constexpr int most = 15; // digits before the point
    if (count <= before_point && before_point <= most) {
        out.append(digits).append(static_cast<std::size_t>(before_point - count), '0').append(".0");
    } else if (0 < before_point && before_point <= most) {
        out.append(digits, 0, static_cast<std::size_t>(before_point)).append(1, '.');
        out.append(digits, static_cast<std::size_t>(before_point), digits.npos);
    } else if (x == 0) {
        out += "0.0";
    } else if (-4 < before_point && before_point <= 0) {
        out.append("0.").append(static_cast<std::size_t>(-before_point), '0').append(digits);
    } else {
        out.append(digits, 0, 1);
        if (count > 1) out.append(1, '.').append(digits, 1, digits.npos);
        out.append(exponent < 0 ? "e-" : "e+");
        std::string const size = detail::text(std::abs(exponent));
        out.append(size.size() < 2 ? "0" : "").append(size);
    }
}

// --- texts -------------------------------------------------------------------------------------------------------------

// A text in quotes. What is no UTF-8 becomes U+FFFD.
inline void append_json(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        utf8_letter const letter = first_letter(text);
        char const c = text.front();
        constexpr std::string_view named = "\b\t\n\f\r\"\\", names = "btnfr\"\\";
        if (!letter.is_valid) {
            out += "\xef\xbf\xbd";
        } else if (std::size_t const at = named.find(c); at != named.npos) {
            out.append(1, '\\').append(1, names[at]);
        } else if (letter.code < 0x20) {
            constexpr char hex[] = "0123456789abcdef";
            out.append("\\u00").append(1, hex[letter.code >> 4]).append(1, hex[letter.code & 15]);
        } else {
            out.append(text.substr(0, letter.bytes));
        }
        text.remove_prefix(letter.bytes);
    }
    out += '"';
}
inline void append_utf8(std::string& out, std::uint32_t code) {
    auto const put = [&](std::uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
        put(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) put(0xe0 | code >> 12);
        else put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f));
        put(0x80 | (code >> 6 & 0x3f));
    }
    put(0x80 | (code & 0x3f));
}

// --- reading -----------------------------------------------------------------------------------------------------------

// Reads a text to its last byte. `events` is told what comes, as null(), boolean(bool), natural(std::uint64_t),
// negative(std::int64_t), real(double, text), string(std::string&&), begin_object(), key(std::string&&), end_object(),
// begin_array(), end_array(). Each returns whether to read on. What is no JSON is told by wrong(offset of the first byte that cannot
// be, the token up to it, why or null). Returns whether all was read. Values nest as deep as begin_object and begin_array let them.
template <class Events> class json_reader {
public:
    json_reader(std::string_view text, Events& events) : text_(text), events_(events) {}

    bool read() {
        if (text_.starts_with("\xef\xbb\xbf")) at_ = 3; // a byte order mark
        skip_space();
        if (!value()) return false;
        while (!open_.empty())
            if (!rest()) return false;
        skip_space();
        token_ = at_;
        return at_ == text_.size() || wrong();
    }

private:
    enum class bracket : bool { array, object };

    bool at_end() const { return at_ == text_.size(); }
    char now() const { return at_end() ? '\0' : text_[at_]; } // 0 is no token
    bool wrong(char const* why = nullptr) {
        events_.wrong(at_, text_.substr(token_, at_ + 1 - token_), why);
        return false;
    }
    void skip_space() {
        while (!at_end() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
    }
    bool expect(char c) {
        skip_space();
        token_ = at_;
        if (at_end() || text_[at_] != c) return wrong();
        ++at_;
        return true;
    }

    // A value that begins here; of an object or an array the beginning, unless it is empty.
    bool value() {
        token_ = at_;
        switch (now()) {
        case '{':
            ++at_;
            if (!events_.begin_object()) return false;
            skip_space();
            if (now() == '}') return ++at_, events_.end_object();
            open_.push_back(bracket::object);
            return member();
        case '[':
            ++at_;
            if (!events_.begin_array()) return false;
            skip_space();
            if (now() == ']') return ++at_, events_.end_array();
            open_.push_back(bracket::array);
            return value();
        case '"': {
            std::string out;
            return string(out) && events_.string(std::move(out));
        }
        case 'n':
            return word("null") && events_.null();
        case 't':
            return word("true") && events_.boolean(true);
        case 'f':
            return word("false") && events_.boolean(false);
        default:
            return number();
        }
    }
    bool member() {
        skip_space();
        token_ = at_;
        std::string name;
        if (now() != '"') return wrong();
        if (!string(name) || !events_.key(std::move(name)) || !expect(':')) return false;
        skip_space();
        return value();
    }
    // What follows a value in the innermost object or array.
    bool rest() {
        skip_space();
        token_ = at_;
        bool const is_object = open_.back() == bracket::object;
        if (now() == ',') {
            ++at_;
            skip_space();
            return is_object ? member() : value();
        }
        if (now() != (is_object ? '}' : ']')) return wrong();
        ++at_;
        open_.pop_back();
        return is_object ? events_.end_object() : events_.end_array();
    }
    bool word(std::string_view all) {
        for (char const c : all) {
            if (now() != c) return wrong();
            ++at_;
        }
        return true;
    }

    static bool is_digit(char c) { return '0' <= c && c <= '9'; }
    bool digits() {
        if (!is_digit(now())) return wrong();
        while (is_digit(now())) ++at_;
        return true;
    }
    bool number() {
        bool const is_negative = now() == '-';
        if (is_negative) ++at_;
        if (now() == '0') ++at_; // no digit follows a leading 0
        else if (!digits()) return false;
        bool is_integer = true;
        if (now() == '.') {
            is_integer = false;
            ++at_;
            if (!digits()) return false;
        }
        if (now() == 'e' || now() == 'E') {
            is_integer = false;
            ++at_;
            if (now() == '+' || now() == '-') ++at_;
            if (!digits()) return false;
        }
        if (!at_end() && std::string_view(" \t\n\r,]}").find(text_[at_]) == std::string_view::npos) return wrong();
        std::string_view const all = text_.substr(token_, at_ - token_);
        auto const parsed = [&](auto& to) {
            return std::from_chars(all.data(), all.data() + all.size(), to).ec == std::errc();
        };
        // -0 is a real number: no integer has its sign.
        std::uint64_t natural = 0;
        std::int64_t integer = 0;
        if (is_integer && !is_negative && parsed(natural)) return events_.natural(natural);
        if (is_integer && is_negative && parsed(integer) && integer != 0) return events_.negative(integer);
        if (auto const real = double_of(all)) return events_.real(*real, all);
        --at_;
        return wrong("a number that no double holds, ");
    }

    bool string(std::string& out) {
        ++at_;
        while (true) {
            if (at_end()) return wrong();
            char const c = text_[at_];
            if (c == '"') return ++at_, true;
            if (c == '\\') {
                if (!escape(out)) return false;
                continue;
            }
            utf8_letter const letter = first_letter(text_.substr(at_));
            if (!letter.is_valid || letter.code < 0x20) return wrong();
            out.append(text_.substr(at_, letter.bytes));
            at_ += letter.bytes;
        }
    }
    bool escape(std::string& out) {
        ++at_;
        constexpr std::string_view names = "btnfr\"\\/", named = "\b\t\n\f\r\"\\/";
        if (std::size_t const i = at_end() ? names.npos : names.find(text_[at_]); i != names.npos) {
            out += named[i];
            ++at_;
            return true;
        }
        std::uint32_t code = 0, low = 0;
        if (now() != 'u') return wrong();
        if (!four_digits(code)) return false;
        if (code >= 0xd800 && code < 0xe000) { // half of a letter beyond U+FFFF
            if (code >= 0xdc00 || now() != '\\') return wrong();
            ++at_;
            if (now() != 'u') return wrong();
            if (!four_digits(low)) return false;
            if (low < 0xdc00 || low >= 0xe000) return --at_, wrong();
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        append_utf8(out, code);
        return true;
    }
    bool four_digits(std::uint32_t& code) {
        ++at_; // the u
        for (int i = 0; i < 4; ++i, ++at_) {
            char const c = now();
            int const digit = is_digit(c)            ? c - '0'
                              : 'a' <= c && c <= 'f' ? c - 'a' + 10
                              : 'A' <= c && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) return wrong();
            code = code << 4 | static_cast<std::uint32_t>(digit);
        }
        return true;
    }

    std::string_view text_;
    Events& events_;
    std::size_t at_ = 0, token_ = 0;
    std::vector<bracket> open_;
};

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
