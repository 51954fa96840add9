#pragma once
#include <gradstep/configuration/catalogue.hpp>
#include <gradstep/configuration/detail/write.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
json reference_to(char const* definition);

template <number Number> json schema_of_number(range const& allowed) {
    json out = {{"type", std::is_floating_point_v<Number> ? "number" : "integer"}};
    auto const bound = [](double x) { return static_cast<Number>(x); };
    if (allowed.is_constant) out["$comment"] = "the same in all steps";
    if (std::isfinite(allowed.low)) out[allowed.low_open ? "exclusiveMinimum" : "minimum"] = bound(allowed.low);
    if (std::isfinite(allowed.high)) out[allowed.high_open ? "exclusiveMaximum" : "maximum"] = bound(allowed.high);
    else if (std::is_integral_v<Number>) out["maximum"] = std::numeric_limits<Number>::max();
    if (std::is_floating_point_v<Number> && allowed.contains(ranges::infinity))
        return {{"anyOf", json::array{std::move(out), {{"const", infinity_word}}}}};
    if (std::is_floating_point_v<Number> && allowed.contains(-ranges::infinity))
        return {{"anyOf", json::array{std::move(out), {{"const", minus_infinity_word}}}}};
    return out;
}

template <class Policy> json schema_of_policy();

template <class Value, class Allowed> json schema_of_hyperparameter(Allowed const& allowed) {
    if constexpr (std::is_same_v<Value, bool>) {
        return {{"type", "boolean"}};
    } else if constexpr (number<Value>) {
        return schema_of_number<Value>(allowed);
    } else if constexpr (std::is_enum_v<Value>) {
        json::array words;
        for (std::size_t i = 0; i < enumerators<Value>.size(); ++i)
            if (allowed.contains(static_cast<Value>(i))) words.push_back(enumerators<Value>[i]);
        return {{"enum", std::move(words)}};
    } else if constexpr (std::is_same_v<Value, any_schedule>) {
        return reference_to("schedule");
    } else if constexpr (std::is_same_v<Value, any_clip>) {
        return reference_to("clip");
    } else if constexpr (requires(Value list) { list.push_back(list[0]); }) {
        json out{{"type", "array"}, {"items", schema_of_hyperparameter<typename Value::value_type>(allowed)}};
        if constexpr (requires { Value::capacity; }) out["maxItems"] = Value::capacity;
        return out;
    } else {
        return schema_of_policy<Value>();
    }
}

// An object with these keys, which are the hyperparameters of Policy, and no others.
// Hyperparameters without a default are required.
template <class Policy> json schema_of_hyperparameters(json properties) {
    json::array required;
    for (auto const& [key, value] : properties.members()) required.push_back(key);
    Policy const policy{};
    for_each_hyperparameter(policy, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        json entry = schema_of_hyperparameter<value_type>(m.allowed);
        if (has_default(value)) entry["default"] = configuration_of_hyperparameter(value);
        else required.push_back(m.name);
        properties[m.name] = std::move(entry);
    });
    return {{"type", "object"},
            {"properties", std::move(properties)},
            {"required", std::move(required)},
            {"additionalProperties", false}};
}
template <class Policy> json schema_of_policy() {
    return schema_of_hyperparameters<Policy>({{"name", {{"const", type_name<Policy>()}}}});
}
template <class List> json::array schemas_of() {
    json::array out;
    List::any([&]<class Policy>() {
        out.push_back(schema_of_policy<Policy>());
        return false;
    });
    return out;
}

// The schema of a configuration.
json schema();
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/configuration/detail/schema.ipp>
#endif
