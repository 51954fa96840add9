#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <locale.h>
#include <system_error>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include <nlohmann/json.hpp>

#include <gradstep/base/error.hpp>

// Reads and writes the text of JSON (RFC 8259) with nlohmann-json, independently of the process's
// locale.
namespace gradstep::detail::inline GRADSTEP_ABI {
// Gives the calling thread the locale "C" until its destructor. nlohmann-json reads real numbers
// with strtod, and uses only the first byte of a locale's decimal point. The process and its other
// threads keep their locale.
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

// Whether the text of a JSON number is exactly 0. A text such as 1e-400 is not, though its double
// is 0.
inline bool is_zero(std::string_view number) {
    return number.substr(0, number.find_first_of("eE")).find_first_of("123456789") == number.npos;
}

// Whether a double is a whole number and its JSON text is another number: 1.0 from
// 0.99999999999999999999, or 9007199254740992.0 from 9007199254740993.0. It compares digits, since
// a double represents every whole number up to 2^53.
inline bool is_rounded_to_whole(double value, std::string_view number) {
    constexpr double limit = 9007199254740992.0; // 2^53
    if (value == 0 || std::trunc(value) != value || std::abs(value) > limit) return false;
    std::size_t const e = std::min(number.find_first_of("eE"), number.size());
    std::int64_t exponent = 0;
    if (e != number.size()) {
        std::string_view power = number.substr(e + 1);
        if (power.starts_with('+')) power.remove_prefix(1);
        // The exponent does not fit in 64 bits. No text has enough digits to make such a number
        // 2^53 or less and whole.
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

// Appends a string in quotes, or a double with the digits that read back to the same double. A
// non-finite double becomes null. Bytes that are not UTF-8 become U+FFFD.
inline void append_json(std::string& out, nlohmann::json const& leaf) {
    out += leaf.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Passes the values that nlohmann-json reads to the `events` of read_json.
template <class Events> class json_events {
public:
    using nlohmann_json = nlohmann::json;
    explicit json_events(Events& events) : events_(events) {}

    bool null() { return events_.null(); }
    bool boolean(bool value) { return events_.boolean(value); }
    bool number_integer(nlohmann_json::number_integer_t value) { // -0 is real: no integer has its sign
        return value < 0 ? events_.negative(value) : events_.real(-0.0, "-0");
    }
    bool number_unsigned(nlohmann_json::number_unsigned_t value) { return events_.natural(value); }
    bool number_float(nlohmann_json::number_float_t value, nlohmann_json::string_t const& text) {
        return events_.real(value, text);
    }
    bool string(nlohmann_json::string_t& value) { return events_.string(std::move(value)); }
    bool binary(nlohmann_json::binary_t&) { return false; } // never called for a text
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

// Reads a text to its last byte, and calls a function of `events` for each item: null(),
// boolean(bool), natural(std::uint64_t), negative(std::int64_t), real(double, text),
// string(std::string&&), begin_object(), key(std::string&&), end_object(), begin_array(),
// end_array(). Each returns whether to read on. If the text is not JSON, calls wrong(offset of the
// first wrong byte, the token up to it, the reason or null). The depth has no limit of its own:
// begin_object and begin_array must limit it.
template <class Events> void read_json(std::string_view text, Events& events) {
    // nlohmann-json would end the text at this byte and ignore the rest.
    if (std::size_t const nul = text.find('\0'); nul != text.npos)
        return events.wrong(nul, text.substr(nul, 1), nullptr);
    c_locale const guard;
    json_events<Events> passed_on(events);
    nlohmann::json::sax_parse(text.begin(), text.end(), &passed_on);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
