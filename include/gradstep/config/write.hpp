#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <gradstep/averaging/averaged.hpp>
#include <gradstep/config/json.hpp>
#include <gradstep/core/describe.hpp>
#include <gradstep/core/members.hpp>
#include <gradstep/regularizers/all_of.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>
#include <gradstep/schedules/chain.hpp>
#include <gradstep/updater.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// Where a number may be infinite, JSON, which has no such number, has this word.
inline constexpr char const* infinity_word = "infinity";

// Whether a member has a value where a configuration leaves it out: not a number that must be given, a policy, or a list of them.
template <class Value> bool has_default([[maybe_unused]] Value const& value) {
    if constexpr (number<Value>) return !is_left_out(value);
    else return std::is_same_v<Value, bool> || std::is_enum_v<Value> || numbers<Value>;
}

template <class Policy> json configuration_of(Policy const& policy);

template <number Number> json configuration_of_number(Number value) {
    if constexpr (std::is_floating_point_v<Number>)
        if (std::isinf(value)) return infinity_word;
    return value;
}
template <class Value> json configuration_of_member(Value const& value) {
    if constexpr (std::is_same_v<Value, bool>) {
        return value;
    } else if constexpr (number<Value>) {
        return configuration_of_number(value);
    } else if constexpr (std::is_enum_v<Value>) {
        return enumerator(value);
    } else if constexpr (requires { value.begin(); }) {
        json items = json::array();
        for (auto const& item : value) items.push_back(configuration_of_member(item));
        return items;
    } else {
        return configuration_of(value);
    }
}

template <class... Parts> void append_parts(json& schedules, json& boundaries, chain<Parts...> const& from) {
    if constexpr (requires { from.last; }) {
        schedules.push_back(configuration_of(from.last));
    } else {
        schedules.push_back(configuration_of(from.first));
        boundaries.push_back(from.boundary);
        append_parts(schedules, boundaries, from.rest);
    }
}
template <class... Parts> json configuration_of_chain(chain<Parts...> const& from) {
    check(from);
    json schedules = json::array(), boundaries = json::array();
    append_parts(schedules, boundaries, from);
    return {{"name", "chain"}, {"schedules", std::move(schedules)}, {"boundaries", std::move(boundaries)}};
}

// One regularizer as it is, none and several by their names.
inline json configuration_of_regularizers(any_regularizer const& all) {
    json items = json::array();
    for (auto const& part : all.parts()) items.push_back(configuration_of(part));
    if (items.empty()) return {{"name", "none"}};
    if (items.size() == 1) return items[0];
    return {{"name", "all_of"}, {"regularizers", std::move(items)}};
}

// A policy with its name and all its members: what reading it gives the same policy.
template <class Policy> json configuration_of(Policy const& policy) {
    if constexpr (requires { policy.valueless_by_exception(); }) { // one of the catalogue
        return std::visit([](auto const& one) { return configuration_of(one); }, policy);
    } else if constexpr (requires { policy.configuration(); }) {
        return policy.configuration();
    } else if constexpr (requires { policy.parts(); }) {
        return configuration_of_regularizers(policy);
    } else if constexpr (requires { policy.rest; } || std::is_same_v<Policy, all_of<>>) {
        if constexpr (requires { policy.boundary; }) return configuration_of_chain(policy);
        else return configuration_of_regularizers(policy);
    } else if constexpr (requires {
                             policy.last;
                             policy.since(0, clock{});
                         }) {
        return configuration_of_chain(policy);
    } else if constexpr (!lists_members<Policy> && (is_nameless_function<Policy>() || !std::is_empty_v<Policy>)) {
        fail<value_error>("to_json: a schedule that is a function has no name that a configuration could hold");
    } else {
        check(policy); // a NaN would be written as null
        json out = {{"name", type_name<Policy>()}};
        for_each_member(policy,
                        [&](auto const& m, auto const& value) { out[m.name] = configuration_of_member(value); });
        return out;
    }
}

// The rule under its averages, which come in the order from the innermost one.
template <class Rule> json configuration_of_rule(Rule const& rule, json&) { return configuration_of(rule); }
template <class Rule, class Average> json configuration_of_rule(averaged<Rule, Average> const& rule, json& averages) {
    json out = configuration_of_rule(rule.rule, averages);
    averages.push_back(configuration_of(rule.average));
    return out;
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
