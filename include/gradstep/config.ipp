#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/config/read.hpp>
#include <gradstep/config/schema.hpp>
#include <gradstep/config/text_file.hpp>
#include <gradstep/config/write.hpp>
#include <gradstep/json/json.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE configuration read_configuration(json const& document, json_path const& at,
                                                 std::span<std::string_view const> more) {
    require_object(document, at);
    constexpr char const* of_editors = "$schema"; // editors find the schema of the file here
    std::vector<std::string_view> keys{"rule", "average", "regularizer", "schedule", "catch_up"};
    keys.insert(keys.end(), more.begin(), more.end());
    refuse_other_keys(document, at, keys, of_editors);
    if (json const* const found = document.find(of_editors); found != nullptr && !found->is_string())
        refuse_type(json_path(at, of_editors), *found, "a word");
    auto const part = [&](char const* key, auto const& read) {
        if (json const* const found = document.find(key)) read(*found, json_path(at, key));
    };
    auto const required = [&](char const* key, char const* example) {
        if (document.find(key) == nullptr) json_path(at, key).refuse_missing({"one, as ", example});
    };
    required("rule", "{\"name\": \"sgd\"}");
    required("schedule", "{\"name\": \"constant\", \"rate\": 0.1}");
    configuration out;
    part("rule", [&](json const& value, json_path const& there) { out.rule = read_policy<any_rule>(value, there); });
    part("average", [&](json const& value, json_path const& there) {
        if (!value.is_array()) return out.averages.push_back(read_policy<any_average>(value, there));
        out.averages = read_value<std::vector<any_average>>(value, there, 0);
    });
    part("regularizer", [&](json const& value, json_path const& there) {
        out.regularizer = read_policy<any_regularizer>(value, there);
    });
    part("schedule",
         [&](json const& value, json_path const& there) { out.schedule = read_policy<any_schedule>(value, there); });
    part("catch_up",
         [&](json const& value, json_path const& there) { out.catch_up = read_policy<any_catch_up>(value, there); });
    return out;
}

GRADSTEP_DEFINE void visit_policies(configuration const& from, policy_visitor& to) {
    for (std::size_t i = 0; i != from.averages.size(); ++i) {
        to.begin("averaged");
        to.hyperparameter("rule");
    }
    visit_policy(to, from.rule);
    for (any_average const& one : from.averages) {
        to.hyperparameter("average");
        visit_policy(to, one);
        to.end();
    }
    visit_policy(to, from.regularizer);
    visit_policy(to, from.schedule);
    visit_policy(to, from.catch_up);
}

GRADSTEP_DEFINE json configuration_of(configuration const& from) {
    auto const check_it = [](auto const& policy) { check(policy); };
    std::visit(check_it, from.rule);
    for (any_average const& one : from.averages) std::visit(check_it, one);
    check(from.regularizer);
    check(from.schedule);
    std::visit(check_it, from.catch_up);
    configuration_writer out;
    visit_policies(from, out);
    return configuration_of_policies(out.take_complete());
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

namespace gradstep {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE configuration read_configuration(std::string_view text) {
    return detail::read_configuration(detail::parse_json(text), detail::json_path());
}

GRADSTEP_DEFINE configuration read_configuration_file(std::string const& path) {
    return detail::of_text_in(path, [](std::string_view text) { return read_configuration(text); });
}

GRADSTEP_DEFINE std::string configuration_schema(int indent) { return detail::schema().dump(indent); }

} // namespace GRADSTEP_ABI
} // namespace gradstep
