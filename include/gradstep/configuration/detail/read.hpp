#pragma once
#include <gradstep/configuration/detail/write.hpp>
#include <gradstep/configuration/registry.hpp>
#include <gradstep/configuration/scheduled_number.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// --- single values

[[noreturn, gnu::cold]] void refuse_type(json_path const& at, json const& value, char const* wanted);
void require_object(json const& value, json_path const& at);
void require_list(json const& value, json_path const& at);
// Refuses a list of more than `most` items.
void require_length(json const& list, json_path const& at, std::size_t most);

// A JSON number: 1e4 is a whole number, and so is every text that is exactly one. Numbers are never
// rounded to whole numbers.
template <number Number> Number read_number(json const& value, json_path const& at, range const& allowed) {
    Number out{};
    using limits = std::numeric_limits<Number>;
    if constexpr (std::is_floating_point_v<Number>) {
        if (value == infinity_word && allowed.contains(ranges::infinity)) return ranges::infinity;
        if (value == minus_infinity_word && allowed.contains(-ranges::infinity)) return -ranges::infinity;
        if constexpr (std::is_same_v<Number, double>)
            if (value.is_object() && at.schedules() != nullptr) return read_schedule_of_number(value, at, allowed);
        if (!value.is_number()) refuse_type(at, value, "a number");
        if (!std::isfinite(value.as<double>())) at.refuse({value.as<double>(), " is not finite"}, {"a finite number"});
        out = value.as<Number>();
        if (!std::isfinite(out) || (out == 0 && value.as<double>() != 0))
            at.refuse({shown(value), " is too large or too small"},
                      {"0 or from ", limits::denorm_min(), " to ", limits::max(), " in size"});
    } else {
        constexpr double limit = 9007199254740992.0; // 2^53: a larger double does not identify a whole number
        auto const* const real = value.get_if<double>();
        bool const is_whole = real != nullptr && std::trunc(*real) == *real;
        if (is_whole && std::abs(*real) >= limit + (value.is_rounded() ? 0 : 2))
            at.refuse({shown(value), " is beyond 2^53"}, {"a whole number with all its digits"});
        if (!value.is_integer() && (!is_whole || value.is_rounded())) refuse_type(at, value, "a whole number");
        bool const fits = real != nullptr || value.get_if<std::int64_t>() != nullptr
                              ? std::in_range<Number>(value.as<std::int64_t>())
                              : std::in_range<Number>(value.as<std::uint64_t>());
        if (!fits) at.refuse({shown(value)}, {"a whole number from ", limits::min(), " to ", limits::max()});
        out = value.as<Number>();
    }
    if (!allowed.contains(static_cast<double>(out)))
        at.refuse({shown(value), " is out of range"}, {bounds_of(allowed)});
    return out;
}
template <class Enum> Enum read_choice(json const& value, json_path const& at, choices<Enum> const& allowed) {
    if (!value.is_string()) refuse_type(at, value, "a word");
    std::string const& word = value.text();
    std::vector<std::string_view> words;
    for (std::size_t i = 0; i < enumerators<Enum>.size(); ++i) {
        if (!allowed.contains(static_cast<Enum>(i))) continue;
        if (word == enumerators<Enum>[i]) return static_cast<Enum>(i);
        words.push_back(enumerators<Enum>[i]);
    }
    at.refuse_unknown({shown(value), " is none of its values"}, word, words);
}

// The name in an object that has one.
std::string const& name_in(json const& object, json_path const& at, char const* what);

template <class Policy> Policy read_policy(json const& value, json_path const& at);

template <class Value, class Allowed> Value read_value(json const& value, json_path const& at, Allowed const& allowed) {
    if constexpr (std::is_same_v<Value, bool>) {
        bool const* const given = value.get_if<bool>();
        if (given == nullptr) refuse_type(at, value, "true or false");
        return *given;
    } else if constexpr (number<Value>) {
        return read_number<Value>(value, at, allowed);
    } else if constexpr (std::is_enum_v<Value>) {
        return read_choice<Value>(value, at, allowed);
    } else if constexpr (requires(Value list) { list.push_back(list[0]); }) {
        require_list(value, at);
        if constexpr (requires { Value::capacity; }) require_length(value, at, Value::capacity);
        Value out;
        for (json const& item : value.items())
            out.push_back(read_value<typename Value::value_type>(item, json_path(at, out.size()), allowed));
        return out;
    } else {
        if constexpr (std::is_aggregate_v<Value>) static_cast<void>(name_in(value, at, "a policy"));
        return read_policy<Value>(value, at);
    }
}

// --- hyperparameters

// Rejects keys that are not allowed.
void refuse_other_keys(json const& object, json_path const& at, std::vector<std::string_view> const& allowed,
                       std::string_view ignored = {});

// Reads the hyperparameters of a policy, or the arguments of a preset, from the keys of an object.
// The object can also contain the keys in `keys`, and no others. Missing ones get their defaults.
template <class Policy>
Policy read_hyperparameters(json const& object, json_path const& at, std::vector<std::string_view> keys) {
    Policy out{};
    for_each_hyperparameter(out, [&](auto const& m, auto const&) { keys.push_back(m.name); });
    refuse_other_keys(object, at, keys);
    for_each_hyperparameter(out, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        json_path const here(at, m.name);
        if (json const* const found = object.find(m.name)) {
            out.*m.at = read_value<value_type>(*found, here, m.allowed);
        } else if (!has_default(value)) {
            if constexpr (number<value_type>) here.refuse_missing({"a number that is ", m.allowed.text});
            else if constexpr (requires(value_type list) { list.push_back(list[0]); }) here.refuse_missing({"a list"});
            else here.refuse_missing({"one, as {\"name\": ...}"});
        }
    });
    // Conditions on several hyperparameters.
    rethrow_as<value_error>([&] { check(out); }, [&](value_error const& wrong) { at.refuse({wrong.what()}); });
    return out;
}

[[noreturn, gnu::cold]] void refuse_name(json_path const& at, std::string const& name, char const* what,
                                         std::vector<std::string_view> const& names);

// --- policies that are chosen by their names

// Reads one of the policies of configuration/registry.hpp and configuration/catalogue.hpp by its
// name; a rule can also be a preset of another framework.
any_rule read_rule(json const& value, json_path const& at);
any_average read_average(json const& value, json_path const& at);
any_regularizer read_regularizer(json const& value, json_path const& at);
any_schedule read_schedule(json const& value, json_path const& at);
any_catch_up read_catch_up(json const& value, json_path const& at);
any_clip read_clip(json const& value, json_path const& at);

// The kind of a policy, as errors name it if it is read alone.
template <class Policy> constexpr std::string_view name_of_kind() {
    if constexpr (std::is_same_v<Policy, any_rule>) return "rule";
    else if constexpr (std::is_same_v<Policy, any_average>) return "average";
    else if constexpr (std::is_same_v<Policy, any_regularizer>) return "regularizer";
    else if constexpr (std::is_same_v<Policy, any_schedule>) return "schedule";
    else if constexpr (std::is_same_v<Policy, any_catch_up>) return "catch_up";
    else if constexpr (std::is_same_v<Policy, any_clip>) return "clip";
    else return type_name<Policy>();
}

// --- policies of a type that is known

template <class Policy> Policy read_policy(json const& value, json_path const& at) {
    if constexpr (std::is_same_v<Policy, any_schedule>) {
        return read_schedule(value, at);
    } else if constexpr (std::is_same_v<Policy, any_regularizer>) {
        return read_regularizer(value, at);
    } else if constexpr (std::is_same_v<Policy, any_rule>) {
        return read_rule(value, at);
    } else if constexpr (std::is_same_v<Policy, any_average>) {
        return read_average(value, at);
    } else if constexpr (std::is_same_v<Policy, any_catch_up>) {
        return read_catch_up(value, at);
    } else if constexpr (std::is_same_v<Policy, any_clip>) {
        return read_clip(value, at);
    } else {
        require_object(value, at);
        if (value.find("name") != nullptr && name_in(value, at, "it") != type_name<Policy>())
            refuse_name(at, name_in(value, at, "it"), "what is read here", {type_name<Policy>()});
        return read_hyperparameters<Policy>(value, at, {"name"});
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/configuration/detail/read.ipp>
#endif
