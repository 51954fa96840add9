#pragma once
#include <gradstep/c/gradstep.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz.hpp"

// What targets share that make sequences of calls of the C library.

inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(),
                       infinity = std::numeric_limits<float>::infinity();
inline constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();

// What to do next, from the input's bytes; zeros after them.
class choices {
public:
    explicit choices(std::span<std::uint8_t const> bytes) : bytes_(bytes) {}
    bool is_empty() const { return bytes_.empty(); }
    std::size_t below(std::size_t end) {
        if (bytes_.empty()) return 0;
        std::size_t const out = bytes_[0] % end;
        bytes_ = bytes_.subspan(1);
        return out;
    }
    template <class T> T one_of(std::initializer_list<T> all) { return all.begin()[below(all.size())]; }
    // Numbers with few digits; one of sixteen is none.
    float number() {
        std::size_t const x = below(256);
        if (x == 255) return not_a_number;
        if (x == 254) return -infinity;
        return (static_cast<float>(x % 32) - 15.5f) / 8;
    }
    std::vector<float> numbers(std::size_t count) {
        float const first = number(), step = number();
        std::vector<float> out;
        for (std::size_t i = 0; i < count; ++i) out.push_back(first + static_cast<float>(i % 4) * step);
        return out;
    }

private:
    std::span<std::uint8_t const> bytes_;
};

inline bool same(std::span<float const> a, std::span<float const> b) {
    bool out = a.size() == b.size();
    for (std::size_t i = 0; out && i < a.size(); ++i)
        out = std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]) ||
              (std::isnan(a[i]) && std::isnan(b[i]));
    return out;
}

// Calls f(error), which must give this code, and says so in `error` as far as that reaches.
template <class F> void call(choices& next, gradstep_status wanted, F const& f) {
    gradstep_error error = GRADSTEP_ERROR_INIT;
    error.struct_size = next.one_of<std::uint32_t>({sizeof error, 0, 4, 8, 24, 9, sizeof error + 8});
    error.code = 77;
    std::memset(error.message, '#', sizeof error.message);
    bool const is_told = next.below(4) != 3;
    gradstep_status const got = f(is_told ? &error : nullptr);
    if (got != wanted)
        fuzz::found("the code is " + std::to_string(got) + " instead of " + std::to_string(wanted) + ": " +
                    (is_told ? std::string(error.message, strnlen(error.message, sizeof error.message)) : ""));
    if (!is_told) return;
    std::size_t const size =
        error.struct_size == 0 ? sizeof error : std::min<std::size_t>(error.struct_size, sizeof error);
    fuzz::require(size < 8 ? error.code == 77 : error.code == got, "the error has another code, or has none to have");
    std::size_t const room = size < 8 ? 0 : size - 8;
    for (std::size_t i = room; i < sizeof error.message; ++i)
        fuzz::require(error.message[i] == '#', "more is written of an error than it has");
    if (room == 0) return;
    std::size_t const length = strnlen(error.message, room);
    fuzz::require(length < room, "the sentence of an error does not end");
    fuzz::require(wanted == GRADSTEP_OK ? length == 0 : room == 1 || fuzz::is_sentence({error.message, length}),
                  "an error has a sentence that is none, or none");
}

// Numbers that look random: sequences as long as they get.
inline std::vector<std::pair<std::string, std::string>> fuzz::written_seeds() {
    std::vector<std::pair<std::string, std::string>> out;
    for (std::uint32_t number = 1; number <= 4; ++number) {
        std::uint32_t x = number;
        std::string bytes(240, ' ');
        for (char& each : bytes) each = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
        out.emplace_back("random" + std::to_string(number), bytes);
    }
    return out;
}
