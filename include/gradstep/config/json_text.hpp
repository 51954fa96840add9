#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <locale.h>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include <nlohmann/json.hpp>

#include <gradstep/core/error.hpp>

// The text of JSON (RFC 8259), which nlohmann-json reads and writes, without what the process can change about it: its locale.
namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// While it lives, the calling thread has the locale "C": nlohmann-json reads real numbers with strtod, and takes the first byte of a
// locale's decimal point for all of it. The process and its other threads keep theirs.
class c_locale {
public:
    c_locale() : before_(::uselocale(of_c())) {}
    c_locale(c_locale const&) = delete;
    c_locale& operator=(c_locale const&) = delete;
    ~c_locale() { ::uselocale(before_); }

private:
    static ::locale_t of_c() {
        static ::locale_t const out = ::newlocale(LC_ALL_MASK, "C", nullptr);
        return out;
    }
    ::locale_t before_;
};

// Whether a number of JSON is 0, and not one that a double has rounded to 0.
inline bool is_zero(std::string_view number) {
    return number.substr(0, number.find_first_of("eE")).find_first_of("123456789") == number.npos;
}

// Whether a double is whole and the number of JSON that it was read from is another one: 1.0 of 0.99999999999999999999, or
// 9007199254740992.0 of 9007199254740993.0. The digits decide: up to 2^53 a double has the exact ones of a whole number.
inline bool is_rounded_to_whole(double value, std::string_view number) {
    constexpr double limit = 9007199254740992.0; // 2^53
    if (value == 0 || std::trunc(value) != value || std::abs(value) > limit) return false;
    std::size_t const e = std::min(number.find_first_of("eE"), number.size());
    std::int64_t exponent = 0;
    if (e != number.size()) {
        std::string_view power = number.substr(e + 1);
        if (power.starts_with('+')) power.remove_prefix(1);
        // No text is long enough to have a number of this size with such an exponent.
        if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec != std::errc()) return true;
    }
    std::string digits; // the number is digits * 10^exponent
    bool behind_point = false;
    for (char const c : number.substr(0, e)) {
        if (c == '.') behind_point = true;
        else if (c != '-') digits += c, exponent -= behind_point;
    }
    while (digits.back() == '0') digits.pop_back(), ++exponent;
    if (exponent < 0 || exponent > 16) return true;
    digits.append(static_cast<std::size_t>(exponent), '0');
    std::uint64_t whole = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), whole);
    return whole != static_cast<std::uint64_t>(std::abs(value));
}

// A text in quotes, or a double, which has the digits that give it back, and is null where it is not finite. What is no UTF-8 becomes
// U+FFFD.
inline void append_json(std::string& out, nlohmann::json const& leaf) {
    out += leaf.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Passes on to read_json's `events` what nlohmann-json reads.
template <class Events> class json_events {
public:
    using nlohmann_json = nlohmann::json;
    explicit json_events(Events& events) : events_(events) {}

    bool null() { return events_.null(); }
    bool boolean(bool value) { return events_.boolean(value); }
    bool number_integer(nlohmann_json::number_integer_t value) { // -0 is a real number: no integer has its sign
        return value < 0 ? events_.negative(value) : events_.real(-0.0, "-0");
    }
    bool number_unsigned(nlohmann_json::number_unsigned_t value) { return events_.natural(value); }
    bool number_float(nlohmann_json::number_float_t value, nlohmann_json::string_t const& text) {
        return events_.real(value, text);
    }
    bool string(nlohmann_json::string_t& value) { return events_.string(std::move(value)); }
    bool binary(nlohmann_json::binary_t&) { return false; } // not in a text
    bool start_object(std::size_t) { return events_.begin_object(); }
    bool key(nlohmann_json::string_t& key) { return events_.key(std::move(key)); }
    bool end_object() { return events_.end_object(); }
    bool start_array(std::size_t) { return events_.begin_array(); }
    bool end_array() { return events_.end_array(); }
    bool parse_error(std::size_t position, std::string const& last, nlohmann_json::exception const& what) {
        constexpr int number_overflow = 406;
        events_.wrong(std::max<std::size_t>(position, 1) - 1, last,
                      what.id == number_overflow ? "a number that no double holds, " : nullptr);
        return false;
    }

private:
    Events& events_;
};

// Reads a text to its last byte. `events` is told what comes, as null(), boolean(bool), natural(std::uint64_t),
// negative(std::int64_t), real(double, text), string(std::string&&), begin_object(), key(std::string&&), end_object(),
// begin_array(), end_array(). Each returns whether to read on. What is no JSON is told by wrong(offset of the first byte that cannot
// be, the token up to it, why or null). Values nest as deep as begin_object and begin_array let them.
template <class Events> void read_json(std::string_view text, Events& events) {
    // To nlohmann-json a text ends at such a byte, whatever follows.
    if (std::size_t const nul = text.find('\0'); nul != text.npos)
        return events.wrong(nul, text.substr(nul, 1), nullptr);
    c_locale const guard;
    json_events<Events> passed_on(events);
    nlohmann::json::sax_parse(text.begin(), text.end(), &passed_on);
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
