#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>

#include <gradstep/core/error.hpp>

namespace gradstep {

/// The numbers a member may take, and their text in error messages. NaN is in no range.
struct range {
    double low, high;
    bool low_open, high_open;
    char const* text;

    /// Whether x is in the range.
    GRADSTEP_INLINE constexpr bool contains(double x) const {
        return (low_open ? low < x : low <= x) && (high_open ? x < high : x <= high);
    }
};

namespace ranges {
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr range fraction{0, 1, false, true, "in [0, 1)"};
inline constexpr range non_negative{0, infinity, false, true, "finite and >= 0"};
inline constexpr range share{0, 1, false, false, "in [0, 1]"};
inline constexpr range at_least_one{1, infinity, false, true, "finite and >= 1"};
inline constexpr range not_positive{-infinity, 0, true, false, "finite and <= 0"};
inline constexpr range positive{0, infinity, true, true, "finite and > 0"};
inline constexpr range finite{-infinity, infinity, true, true, "finite"};
inline constexpr range count{0, infinity, false, true, ">= 0"};
inline constexpr range positive_count{1, infinity, false, true, ">= 1"};
} // namespace ranges

/// What a member holds until the user gives it a number: a policy whose required member is left out is refused by name.
inline constexpr double missing = std::numeric_limits<double>::quiet_NaN();
inline constexpr std::int64_t missing_count = -1;

/// One hyper-parameter of a policy: its name, where it is, and what it may be. A policy lists them once, as
/// `static constexpr auto members = std::tuple{member{"beta1", &adam::beta1, ranges::fraction}, ...};`
/// and the checks, `describe` and every reader or writer of configurations follow the list.
template <class Policy, class Value> struct member {
    char const* name;
    Value Policy::*at;
    range allowed = ranges::finite;
};
template <class Policy, class Value> member(char const*, Value Policy::*) -> member<Policy, Value>;
template <class Policy, class Value> member(char const*, Value Policy::*, range) -> member<Policy, Value>;

inline namespace GRADSTEP_ISA {
namespace detail {

template <class Policy> concept lists_members = requires { Policy::members; };

template <class Value> concept number = std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>;

// A list of numbers, as std::vector<double>.
template <class Value> concept numbers = requires(Value const& value) {
    value.size();
    requires number<std::remove_cvref_t<decltype(value[0])>>;
};

// Whether a member without a default was not given: it holds what the policy puts there.
template <class Policy, class Member, class Value> bool is_left_out(Member const& m, Value value) {
    if constexpr (!std::is_default_constructible_v<Policy> || std::is_unsigned_v<Value>) return false;
    else if constexpr (std::is_integral_v<Value>) return value == missing_count && Policy{}.*m.at == missing_count;
    else return std::isnan(value) && std::isnan(Policy{}.*m.at);
}

template <class Policy, class F> void for_each_member(Policy const& policy, F&& f) {
    if constexpr (lists_members<Policy>)
        std::apply([&](auto const&... m) { (f(m, policy.*m.at), ...); }, Policy::members);
}

// Throws value_error if `value`, the member m of a policy or the item i of its list, is missing or out of range.
template <class Policy, class Member, number Value>
void check_number(Member const& m, Value value, double largest, std::int64_t i = -1) {
    auto const x = static_cast<double>(value);
    if (m.allowed.contains(x) && (std::is_integral_v<Value> || std::abs(x) <= largest)) return;
    std::string name = std::string(type_name<Policy>()) + "." + m.name;
    if (i >= 0) name.append("[").append(text(i)).append("]");
    if constexpr (std::is_same_v<Member, member<Policy, Value>>)
        if (is_left_out<Policy>(m, value))
            throw value_error(name + " is missing: give a number that is " + m.allowed.text);
    if (m.allowed.contains(x))
        throw value_error(name + " = " + text(value) + ": must be at most " + text(largest) +
                          ", the largest number of the element's arithmetic");
    throw value_error(name + " = " + text(value) + ": must be " + m.allowed.text);
}

/// Throws value_error for the first member of `policy`, or of a policy inside it, that is missing or out of range.
/// A policy's own `check()` holds what concerns several members at once. `largest` is that of the type in which kernels
/// will hold the numbers: one that becomes infinite there would turn zeros into NaN.
template <class Policy> void check(Policy const& policy, double largest = ranges::infinity) {
    for_each_member(policy, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        if constexpr (number<value_type>) {
            check_number<Policy>(m, value, largest);
        } else if constexpr (numbers<value_type>) {
            for (std::size_t i = 0; i < value.size(); ++i)
                check_number<Policy>(m, value[i], largest, static_cast<std::int64_t>(i));
        } else if constexpr (
            lists_members<value_type> || requires { value.check(); } || requires { value.check_all(largest); }) {
            check(value, largest);
        }
    });
    if constexpr (requires { policy.check_all(largest); }) policy.check_all(largest);
    if constexpr (requires { policy.check(); }) policy.check();
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
