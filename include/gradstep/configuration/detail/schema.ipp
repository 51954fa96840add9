#pragma once
#include <gradstep/configuration/dialects.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE json reference_to(char const* definition) { return {{"$ref", joined({"#/$defs/", definition})}}; }

GRADSTEP_DEFINE json schema() {
    json::array rules_of = schemas_of<rules>();
    for_each_dialect([&](auto const& presets) {
        presets.for_each([&](auto preset) {
            using arguments = typename decltype(preset)::arguments_type;
            rules_of.push_back(schema_of_hyperparameters<arguments>(
                {{"dialect", {{"const", presets.dialect}}}, {"name", {{"const", preset.name()}}}}));
        });
    });
    json::array regularizers_of = schemas_of<regularizers>();
    regularizers_of.push_back(schema_of_policy<none>());
    regularizers_of.push_back({{"type", "object"},
                               {"properties",
                                {{"name", {{"const", "all_of"}}},
                                 {"regularizers", {{"type", "array"}, {"items", reference_to("regularizer")}}}}},
                               {"required", json::array{"name", "regularizers"}},
                               {"additionalProperties", false}});
    json::array catch_ups_of = schemas_of<catch_ups>();
    json::array names;
    catch_ups::any([&]<class Policy>() {
        if (!lists_hyperparameters<Policy>) names.push_back(type_name<Policy>());
        return false;
    });
    catch_ups_of.push_back({{"enum", std::move(names)}});

    json out;
    out["$schema"] = "https://json-schema.org/draft/2020-12/schema";
    out["title"] = "The configuration of an optimizer of gradstep";
    out["type"] = "object";
    out["properties"] = {
        {"$schema", {{"type", "string"}}},
        {"rule", reference_to("rule")},
        {"average",
         {{"anyOf", json::array{reference_to("average"), {{"type", "array"}, {"items", reference_to("average")}}}}}},
        {"regularizer", reference_to("regularizer")},
        {"schedule", reference_to("schedule")},
        {"catch_up", reference_to("catch_up")}};
    out["required"] = json::array{"rule", "schedule"};
    out["additionalProperties"] = false;
    out["$defs"] = {{"rule", {{"oneOf", std::move(rules_of)}}},
                    {"average", {{"oneOf", schemas_of<averages>()}}},
                    {"regularizer", {{"oneOf", std::move(regularizers_of)}}},
                    {"schedule", {{"oneOf", schemas_of<schedules>()}}},
                    {"catch_up", {{"oneOf", std::move(catch_ups_of)}}}};
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
