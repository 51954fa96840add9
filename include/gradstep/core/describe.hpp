#pragma once
#include <string>
#include <string_view>
#include <type_traits>

#include <gradstep/core/members.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

template <numbers List> std::string list(List const& items) {
    std::string out;
    for (auto const item : items) out += (out.empty() ? "" : ", ") + text(item);
    return "{" + out + "}";
}

// Whether T is a function that has no name of its own to be described by: a lambda, a pointer, std::function.
template <class T> constexpr bool is_nameless_function() {
    std::string_view name = __PRETTY_FUNCTION__;
    name.remove_prefix(name.find("T = ") + 4);
    return std::is_pointer_v<T> || name.starts_with("std::") || name.find("<lambda") != name.npos ||
           name.find("(lambda") != name.npos;
}

} // namespace detail

/// A policy as one line of text, for logs: "adam{beta1 = 0.9, beta2 = 0.999, epsilon = 1e-08}". A schedule that is a lambda
/// or another function without a name is "a function of the clock".
template <class Policy> std::string describe(Policy const& policy) {
    std::string out;
    auto const add = [&](std::string const& item) { out += (out.empty() ? "" : ", ") + item; };
    if constexpr (std::is_enum_v<Policy>) {
        return detail::enumerator(policy);
    } else if constexpr (requires { policy.description(); }) {
        return policy.description();
    } else if constexpr (!detail::lists_members<Policy> && detail::is_nameless_function<Policy>()) {
        return "a function of the clock";
    } else {
        detail::for_each_member(policy, [&](auto const& m, auto const& value) {
            using value_type = std::remove_cvref_t<decltype(value)>;
            std::string name(m.name);
            name += " = "; // not by +: g++ 12 warns of bounds under the thread sanitizer
            if constexpr (std::is_same_v<value_type, bool>) add(name + (value ? "true" : "false"));
            else if constexpr (std::is_arithmetic_v<value_type>) add(name + detail::text(value));
            else if constexpr (detail::numbers<value_type>) add(name + detail::list(value));
            else add(name + describe(value));
        });
        out = std::string(detail::type_name<Policy>()) + (out.empty() ? "" : "{" + out + "}");
        return out;
    }
}

} // namespace GRADSTEP_ISA
} // namespace gradstep
