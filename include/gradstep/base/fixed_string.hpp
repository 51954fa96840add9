#pragma once
#include <array>
#include <type_traits>

#include <gradstep/base/error.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// A string literal as a template argument: `parameter.state<"m">()`.
template <std::size_t N> struct fixed_string {
    char text[N] = {};

    constexpr fixed_string() = default;
    constexpr fixed_string(char const (&literal)[N]) {
        for (std::size_t i = 0; i < N; ++i) text[i] = literal[i];
    }
    /// The text, without the zero at its end.
    constexpr std::string_view view() const { return {text, std::string_view(text).size()}; }
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// "adam has 2 state slots: m, v", for compile errors: compilers print a template argument of this
// type as text. It fills an array of exactly its size; otherwise clang would print numbers.
template <std::size_t N, std::size_t Slots>
constexpr fixed_string<N> slots_sentence(std::string_view rule, std::array<char const*, Slots> const& names) {
    fixed_string<N> out;
    std::size_t at = 0;
    auto const put = [&](std::string_view part) {
        for (char const c : part)
            if (at + 1 < N) out.text[at++] = c;
    };
    char const digit[2] = {static_cast<char>('0' + Slots % 10), 0};
    put(rule), put(" has "), put(digit), put(Slots == 1 ? " state slot" : " state slots");
    char const* before = ": ";
    for (char const* name : names) {
        put(before), put(name);
        before = ", ";
    }
    return out;
}
template <class Updater> constexpr auto slots_sentence() {
    constexpr auto of_any_size = [](auto size) {
        return slots_sentence<size>(type_name<typename Updater::rule_type>(), Updater::state_names);
    };
    constexpr std::size_t length = of_any_size(std::integral_constant<std::size_t, 256>{}).view().size();
    return of_any_size(std::integral_constant<std::size_t, length + 1>{});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
