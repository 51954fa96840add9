#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::vector<json> configuration_writer::take_complete() {
    if (has_functions_)
        fail<value_error>({"to_json"}, {"the schedule is a function, which has no name in a configuration"},
                          {"a schedule of gradstep"});
    return take();
}

GRADSTEP_DEFINE void configuration_writer::end_list() {
    level ended = closed();
    if (ended.key == "chain") put(chain_of(std::move(*ended.value.get_if<json::array>())));
    else if (ended.key == "all_of") put(all_of_parts(std::move(*ended.value.get_if<json::array>())));
    else put(std::move(ended.value));
}

GRADSTEP_DEFINE void configuration_writer::nameless(std::string_view) {
    has_functions_ = true;
    put(nullptr);
}

GRADSTEP_DEFINE configuration_writer::level configuration_writer::closed() {
    level out = std::move(open_.back());
    open_.pop_back();
    return out;
}

GRADSTEP_DEFINE void configuration_writer::put(json value) {
    if (open_.empty()) values_.push_back(std::move(value));
    else if (auto* const list = open_.back().value.get_if<json::array>()) list->push_back(std::move(value));
    else open_.back().value[open_.back().key] = std::move(value);
}

GRADSTEP_DEFINE json configuration_writer::chain_of(json::array parts) {
    json::array schedules, boundaries;
    for (json& part : parts) (part.is_number() ? boundaries : schedules).push_back(std::move(part));
    return {{"name", "chain"}, {"schedules", std::move(schedules)}, {"boundaries", std::move(boundaries)}};
}

GRADSTEP_DEFINE json configuration_writer::all_of_parts(json::array parts) {
    json::array items;
    for (json& part : parts) {
        json const* const name = part.find("name");
        if (part.find("regularizers") != nullptr)
            for (json& inner : *part["regularizers"].get_if<json::array>()) items.push_back(std::move(inner));
        else if (name == nullptr || *name != "none") items.push_back(std::move(part));
    }
    if (items.empty()) return {{"name", "none"}};
    if (items.size() == 1) return std::move(items[0]);
    return {{"name", "all_of"}, {"regularizers", std::move(items)}};
}

GRADSTEP_DEFINE json configuration_of_policies(std::vector<json> policies) {
    json out;
    if (policies.size() == 1) {
        out["average"] = std::move(policies[0]);
        return out;
    }
    json::array averages;
    json rule = std::move(policies[0]);
    while (rule["name"] == "averaged") { // starts with the innermost average
        averages.insert(averages.begin(), std::move(rule["average"]));
        rule = json(std::move(rule["rule"]));
    }
    out["rule"] = std::move(rule);
    if (averages.size() == 1) out["average"] = std::move(averages[0]);
    else if (!averages.empty()) out["average"] = std::move(averages);
    out["regularizer"] = std::move(policies[1]);
    out["schedule"] = std::move(policies[2]);
    // A catch-up policy without hyperparameters is written as its name.
    if (policies.size() > 3) out["catch_up"] = policies[3].members().size() == 1 ? policies[3]["name"] : policies[3];
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
