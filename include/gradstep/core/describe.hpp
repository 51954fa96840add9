#pragma once
#include <string>

#include <gradstep/core/members.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

template <numbers List> std::string list(List const& items) {
    std::string out;
    for (auto const item : items) out += (out.empty() ? "" : ", ") + text(item);
    return "{" + out + "}";
}

} // namespace detail

/// A policy as one line of text, for logs: "adam{beta1 = 0.9, beta2 = 0.999, epsilon = 1e-08}".
template <class Policy> std::string describe(Policy const& policy) {
    std::string out;
    auto const add = [&](std::string const& item) { out += (out.empty() ? "" : ", ") + item; };
    if constexpr (std::is_enum_v<Policy>) {
        return detail::enumerator(policy);
    } else if constexpr (requires { policy.description(); }) {
        return policy.description();
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
