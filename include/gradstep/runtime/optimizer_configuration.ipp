#pragma once

#include <gradstep/configuration/detail/schema.hpp>
#include <gradstep/configuration/detail/text_file.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE optimizer_configuration read_optimizer(json const& document, json_path const& at,
                                                       std::vector<std::string_view> keys) {
    optimizer_options::hyperparameters.for_each([&](auto const& m) { keys.push_back(m.name); });
    optimizer_configuration out{read_configuration(document, at, keys, true)};
    for_each_hyperparameter(optimizer_options{}, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        if (json const* const found = document.find(m.name))
            out.options.*m.at = read_value<value_type>(*found, json_path(at, m.name), m.allowed);
    });
    return out;
}

GRADSTEP_DEFINE json configuration_of(optimizer_configuration const& from) {
    json out = configuration_of(from.policies);
    for_each_hyperparameter(
        from.options, [&](auto const& m, auto const& value) { out[m.name] = configuration_of_hyperparameter(value); });
    return out;
}

// Allows a schedule in place of each number of a policy, and of the policies inside it.
GRADSTEP_DEFINE void allow_schedules(json& policy) {
    for (auto& [key, of] : *policy["properties"].get_if<json::object>()) {
        if (of.find("$comment") != nullptr) continue; // it is the same in all steps
        json const* const type = of.find("type");
        if (json* const either = of.find("anyOf") == nullptr ? nullptr : &of["anyOf"]) { // a number or infinity
            either->get_if<json::array>()->push_back(reference_to("schedule"));
        } else if (type != nullptr && *type == "number") {
            json const* const value = of.find("default");
            json const fallback = value == nullptr ? json() : *value;
            json number;
            for (auto const& [word, what] : of.members())
                if (word != "default") number[word] = what;
            of = {{"anyOf", json::array{std::move(number), reference_to("schedule")}}};
            if (value != nullptr) of["default"] = fallback;
        } else if (of.find("properties") != nullptr) {
            allow_schedules(of);
        }
    }
}

GRADSTEP_DEFINE json optimizer_schema() {
    json out = schema();
    for (char const* const kind : {"rule", "average", "regularizer"})
        for (json& policy : *out["$defs"][kind]["oneOf"].get_if<json::array>())
            if (policy.find("properties") != nullptr && policy["properties"].find("dialect") == nullptr)
                allow_schedules(policy);
    out["$defs"]["clip"] = {{"oneOf", schemas_of<clips>()}};
    for_each_hyperparameter(optimizer_options{}, [&](auto const& m, auto const& value) {
        json& key = out["properties"][m.name] =
            schema_of_hyperparameter<std::remove_cvref_t<decltype(value)>>(m.allowed);
        key["default"] = configuration_of_hyperparameter(value);
    });
    return out;
}

GRADSTEP_DEFINE configuration policies_of_step(optimizer_configuration const& from) {
    configuration out = from.policies;
    if (auto const* const clip = std::get_if<clip_value>(&from.options.clip)) {
        if (out.regularizer.parts().size() == any_regularizer::most)
            fail<value_error>({"clip"}, {"clip_value acts beside ", any_regularizer::most, " regularizers"},
                              {"at most ", any_regularizer::most - 1, " regularizers, or clip_norm"});
        std::vector<any_regularizer::part> parts{*clip};
        parts.insert(parts.end(), out.regularizer.parts().begin(), out.regularizer.parts().end());
        out.regularizer = any_regularizer(std::span<any_regularizer::part const>(parts));
        constexpr std::string_view before = "regularizer.regularizers[";
        for (scheduled_number& one : out.scheduled) // every part is one further
            if (one.path.starts_with(before)) {
                auto const end = one.path.find(']');
                one.path = joined({before, std::stoull(one.path.substr(before.size())) + 1, one.path.substr(end)});
            }
    }
    return out;
}

GRADSTEP_DEFINE norm_limit limit_of_step(any_clip const& clip) {
    auto const limit = [&](auto const* one, bool of_all) {
        if (one == nullptr) return norm_limit{};
        check(*one);
        return norm_limit{.limit = one->limit, .of_all = of_all};
    };
    if (auto const* const adaptive = std::get_if<clip_adaptive>(&clip)) {
        check(*adaptive);
        return {.ratio = adaptive->ratio, .epsilon = adaptive->epsilon};
    }
    norm_limit const own = limit(std::get_if<clip_norm>(&clip), false);
    return own.is_none() ? limit(std::get_if<clip_global_norm>(&clip), true) : own;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::string optimizer_schema(int indent) { return detail::optimizer_schema().dump(indent); }

GRADSTEP_DEFINE optimizer_configuration read_optimizer(std::string_view text) {
    return detail::read_optimizer(detail::parse_json(text), detail::json_path());
}

GRADSTEP_DEFINE std::vector<std::pair<std::string, optimizer_configuration>> read_optimizers(std::string_view text) {
    detail::json const document = detail::parse_json(text);
    detail::require_object(document, detail::json_path());
    std::vector<std::pair<std::string, optimizer_configuration>> out;
    for (auto const& [name, optimizer] : document.members())
        out.emplace_back(name, detail::read_optimizer(optimizer, detail::json_path(name)));
    return out;
}

GRADSTEP_DEFINE std::vector<std::pair<std::string, optimizer_configuration>>
read_optimizers_file(std::string const& path) {
    return detail::of_text_in(path, [](std::string_view text) { return read_optimizers(text); });
}

GRADSTEP_DEFINE std::string to_json(optimizer_configuration const& from, int indent) {
    return detail::configuration_of(from).dump(indent);
}
} // namespace gradstep::inline GRADSTEP_ABI
