#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include <gradstep/base/error.hpp>

namespace gradstep {
/// The values that a hyperparameter can have, and their text in error messages. NaN is in no range.
struct range {
    double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
    bool low_open = true, high_open = true;
    char const* text = "finite";
    bool is_constant = false; // the hyperparameter cannot follow a schedule (`scheduled`)

    /// Whether x is in the range.
    GRADSTEP_INLINE constexpr bool contains(double x) const {
        return (low_open ? low < x : low <= x) && (high_open ? x < high : x <= high);
    }
};
} // namespace gradstep

namespace gradstep::ranges {
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr range fraction{0, 1, false, true, "in [0, 1)"};
inline constexpr range positive_fraction{0, 1, true, true, "in (0, 1)"};
inline constexpr range non_negative{0, infinity, false, true, "finite and >= 0"};
inline constexpr range share{0, 1, false, false, "in [0, 1]"};
inline constexpr range power_of_rate{0, 16, false, false, "in [0, 16]"};
inline constexpr range positive_share{0, 1, true, false, "in (0, 1]"};
inline constexpr range at_least_one{1, infinity, false, true, "finite and >= 1"};
inline constexpr range at_least_one_or_infinite{1, infinity, false, false, ">= 1, or infinite"};
inline constexpr range not_positive{-infinity, 0, true, false, "finite and <= 0"};
inline constexpr range positive{0, infinity, true, true, "finite and > 0"};
inline constexpr range positive_or_infinite{0, infinity, true, false, "> 0, or infinite"};
inline constexpr range finite{-infinity, infinity, true, true, "finite"};
inline constexpr range finite_or_infinite{-infinity, infinity, true, false, "finite, or infinity"};
inline constexpr range finite_or_below_all{-infinity, infinity, false, true, "finite, or -infinity"};
inline constexpr range count{0, infinity, false, true, ">= 0"};
inline constexpr range positive_count{1, infinity, false, true, ">= 1"};
/// The same range for a hyperparameter that must be the same in all steps, because the state of
/// earlier steps contains it.
GRADSTEP_INLINE constexpr range constant(range of) {
    of.is_constant = true;
    return of;
}
} // namespace gradstep::ranges

namespace gradstep {
/// The names of the values of an enumeration, in order from 0: for `describe`, errors and
/// configurations. Every enumeration that is a hyperparameter of a policy has a specialisation next
/// to it.
template <class Enum> inline constexpr std::array<char const*, 0> enumerators{};

/// The values that a hyperparameter of enumeration type can have. The default is all values that
/// have a name.
template <class Enum> struct choices {
    unsigned bits = (1u << enumerators<Enum>.size()) - 1;

    choices() = default;
    GRADSTEP_INLINE constexpr choices(std::initializer_list<Enum> allowed) : bits(0) {
        for (Enum const one : allowed) bits |= 1u << static_cast<unsigned>(one);
    }
    /// Whether x is one of them.
    GRADSTEP_INLINE constexpr bool contains(Enum x) const {
        return static_cast<std::size_t>(x) < enumerators<Enum>.size() && (bits >> static_cast<unsigned>(x) & 1u) != 0;
    }
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
template <class Value> struct allowed { using type = range; };
template <class Value>
requires std::is_enum_v<Value>
struct allowed<Value> {
    using type = choices<Value>;
};
template <class Value> using allowed_of = typename allowed<Value>::type;
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep {
/// The value of a required hyperparameter until you set it. A policy with this value is rejected,
/// with the hyperparameter's name. It is a special NaN, or the smallest count, so that errors
/// report a NaN or a -1 that you set yourself as such.
inline constexpr double missing = std::bit_cast<double>(std::uint64_t(0x7ff8'6761'7073'2121));
inline constexpr std::int64_t missing_count = std::numeric_limits<std::int64_t>::min();

/// One hyperparameter of a policy: its name, a pointer to it, and its range. A policy lists its
/// hyperparameters once. Checks, `describe`, and all readers and writers of configurations use this
/// list:
///
///     static constexpr auto hyperparameters =
///         hyperparameter_list{hyperparameter{"beta1", &adam::beta1, ranges::fraction}, ...};
template <class Policy, class Value> struct hyperparameter {
    char const* name;
    Value Policy::*at;
    detail::allowed_of<Value> allowed = {};
};
template <class Policy, class Value> hyperparameter(char const*, Value Policy::*) -> hyperparameter<Policy, Value>;
template <class Policy, class Value>
hyperparameter(char const*, Value Policy::*, range) -> hyperparameter<Policy, Value>;
template <class Policy, class Value>
hyperparameter(char const*, Value Policy::*, choices<Value>) -> hyperparameter<Policy, Value>;

/// The hyperparameters of a policy, of any number and types. It is not a std::tuple, which takes
/// three times as long to compile, for every policy and every file. It is flat for up to three
/// hyperparameters, since each level of nesting takes time too.
template <class... Hyperparameters> struct hyperparameter_list {
    /// Calls f(hyperparameter) for each hyperparameter, in order.
    template <class F> GRADSTEP_INLINE constexpr void for_each(F const&) const {}
};
template <class First> struct hyperparameter_list<First> {
    First first;

    template <class F> GRADSTEP_INLINE constexpr void for_each(F const& f) const { f(first); }
};
template <class First, class Second> struct hyperparameter_list<First, Second> {
    First first;
    Second second;

    template <class F> GRADSTEP_INLINE constexpr void for_each(F const& f) const {
        f(first);
        f(second);
    }
};
template <class First, class Second, class Third> struct hyperparameter_list<First, Second, Third> {
    First first;
    Second second;
    Third third;

    template <class F> GRADSTEP_INLINE constexpr void for_each(F const& f) const {
        f(first);
        f(second);
        f(third);
    }
};
template <class First, class Second, class Third, class... Rest>
struct hyperparameter_list<First, Second, Third, Rest...> {
    hyperparameter_list<First, Second, Third> front;
    hyperparameter_list<Rest...> rest;

    GRADSTEP_INLINE constexpr hyperparameter_list(First first, Second second, Third third, Rest... tail)
        : front{first, second, third}, rest{tail...} {}
    template <class F> GRADSTEP_INLINE constexpr void for_each(F const& f) const {
        front.for_each(f);
        rest.for_each(f);
    }
};
template <class... Hyperparameters> hyperparameter_list(Hyperparameters...) -> hyperparameter_list<Hyperparameters...>;
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
template <class Policy> concept lists_hyperparameters = requires { Policy::hyperparameters; };

template <class Value> concept number = std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>;

// A list of numbers, such as std::vector<double>.
template <class Value> concept numbers = requires(Value const& value) {
    value.size();
    requires number<std::remove_cvref_t<decltype(value[0])>>;
};

// Whether a required hyperparameter was not set: it still has the policy's marker.
GRADSTEP_INLINE bool is_left_out(double value) {
    return std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(missing);
}
GRADSTEP_INLINE bool is_left_out(std::int64_t value) { return value == missing_count; }
GRADSTEP_INLINE bool is_left_out(std::uint64_t) { return false; }

template <class Policy, class F> void for_each_hyperparameter(Policy const& policy, F&& f) {
    if constexpr (lists_hyperparameters<Policy>)
        Policy::hyperparameters.for_each([&](auto const& m) { f(m, policy.*m.at); });
}

// The name of an enumerator; the number if it has no name.
template <class Enum> std::string enumerator(Enum value) {
    auto const i = static_cast<std::size_t>(value);
    return i < enumerators<Enum>.size() ? enumerators<Enum>[i] : text(static_cast<std::int64_t>(value));
}

// The name of a hyperparameter in errors: "adam.beta1", "piecewise.rates[2]".
inline std::string hyperparameter_name(std::string_view policy, char const* hyperparameter, std::int64_t i = -1) {
    return i < 0 ? joined({policy, ".", hyperparameter}) : joined({policy, ".", hyperparameter, "[", i, "]"});
}
// The same for a type: out of line, so that checks that nearly always succeed stay small.
template <class Policy>
[[gnu::cold, gnu::noinline]] std::string hyperparameter_name(char const* hyperparameter, std::int64_t i = -1) {
    return hyperparameter_name(type_name<Policy>(), hyperparameter, i);
}
// The range as errors write it behind "expected ": "[0, 1)" without "in".
inline std::string_view bounds_of(range const& allowed) {
    std::string_view const text = allowed.text;
    return text.starts_with("in ") ? text.substr(3) : text;
}
template <std::same_as<range> Range> // so that only files with checks compile it
[[noreturn, gnu::cold, gnu::noinline]] void refuse_number(std::string const& name, text_arg value, double x,
                                                          bool left_out, Range const& allowed, double largest) {
    if (left_out) fail<value_error>({name}, {"is missing"}, {"a number that is ", allowed.text});
    if (!allowed.contains(x)) fail<value_error>({name}, {value, " is out of range"}, {bounds_of(allowed)});
    fail<value_error>({name}, {value, " is out of range"},
                      {"at most ", largest, ", the largest number of the element's arithmetic"});
}
template <class Name>
[[noreturn, gnu::cold, gnu::noinline]] void refuse_choice(std::string const& name, Name const* enumerators,
                                                          std::size_t count, unsigned allowed, std::int64_t value) {
    std::string names;
    for (std::size_t i = 0; i < count; ++i)
        if ((allowed >> i & 1u) != 0) names.append(names.empty() ? "" : " or ").append(enumerators[i]);
    auto const i = static_cast<std::size_t>(value);
    fail<value_error>({name}, {i < count ? text_arg(enumerators[i]) : text_arg(value), " is not allowed"}, {names});
}
// Throws value_error if `value` (a hyperparameter of a policy, or the item i of its list) is
// missing or out of range.
template <class Policy, number Value>
void check_number(char const* hyperparameter, range const& allowed, Value value, double largest, std::int64_t i = -1) {
    using widest = std::conditional_t<std::is_floating_point_v<Value>, double,
                                      std::conditional_t<std::is_signed_v<Value>, std::int64_t, std::uint64_t>>;
    auto const x = static_cast<double>(value);
    // Infinity is an option where it is allowed, not a number of the arithmetic.
    if (allowed.contains(x) && (std::is_integral_v<Value> || std::abs(x) <= largest || std::isinf(x))) return;
    auto const given = static_cast<widest>(value);
    refuse_number(hyperparameter_name<Policy>(hyperparameter, i), given, x, is_left_out(given), allowed, largest);
}
template <class Policy, class Enum>
void check_choice(char const* hyperparameter, choices<Enum> const& allowed, Enum value) {
    if (!allowed.contains(value))
        refuse_choice(hyperparameter_name<Policy>(hyperparameter), enumerators<Enum>.data(), enumerators<Enum>.size(),
                      allowed.bits, static_cast<std::int64_t>(value));
}

/// Throws value_error for the first hyperparameter of `policy`, or of a policy inside it, that is
/// missing or out of range. A policy's own `check()` tests conditions on several hyperparameters.
/// `largest` is the largest number of the type in which kernels store the numbers: a number that
/// becomes infinite there would turn zeros into NaN.
template <class Policy> void check(Policy const& policy, double largest = ranges::infinity) {
    if constexpr (requires { policy.check_scheduled(largest); }) return policy.check_scheduled(largest);
    for_each_hyperparameter(policy, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        if constexpr (number<value_type>) {
            check_number<Policy>(m.name, m.allowed, value, largest);
        } else if constexpr (numbers<value_type>) {
            for (std::size_t i = 0; i < value.size(); ++i)
                check_number<Policy>(m.name, m.allowed, value[i], largest, static_cast<std::int64_t>(i));
        } else if constexpr (std::is_enum_v<value_type>) {
            check_choice<Policy>(m.name, m.allowed, value);
        } else if constexpr (
            lists_hyperparameters<value_type> || requires { value.check(); } ||
            requires { value.check_all(largest); }) {
            check(value, largest);
        }
    });
    if constexpr (requires { policy.check_all(largest); }) policy.check_all(largest);
    if constexpr (requires { policy.check(); }) policy.check();
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
