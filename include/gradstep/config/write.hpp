#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/core/describe.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/json/json.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// Where a number may be infinite, JSON, which has no such number, has this word.
inline constexpr char const* infinity_word = "infinity";

// Whether a member has a value where a configuration leaves it out: not a number that must be given, a policy, or a list of them.
template <class Value> bool has_default([[maybe_unused]] Value const& value) {
    if constexpr (number<Value>) return !is_left_out(value);
    else return std::is_same_v<Value, bool> || std::is_enum_v<Value> || numbers<Value>;
}

// Policies as JSON. A schedule that is a function becomes null.
class configuration_writer final : public policy_visitor {
public:
    // What was visited, one after the other.
    std::vector<json> take() { return std::move(values_); }
    // The same. Throws value_error for a function.
    std::vector<json> take_complete() {
        if (has_functions_)
            fail<value_error>("to_json: a schedule that is a function has no name that a configuration could hold");
        return take();
    }

    void begin(std::string_view name) override { open_.push_back({json{{"name", name}}, {}}); }
    void member(char const* name) override { open_.back().key = name; }
    void end() override { put(closed().value); }
    void begin_list(std::string_view name) override { open_.push_back({json::array(), std::string(name)}); }
    void end_list() override {
        level ended = closed();
        if (ended.key == "chain") put(chain_of(std::move(*ended.value.get_if<json::array>())));
        else if (ended.key == "all_of") put(all_of_parts(std::move(*ended.value.get_if<json::array>())));
        else put(std::move(ended.value));
    }
    void number(double x) override { std::isinf(x) ? put(infinity_word) : put(x); }
    void number(std::int64_t x) override { put(x); }
    void number(std::uint64_t x) override { put(x); }
    void boolean(bool x) override { put(x); }
    void word(std::string_view x) override { put(x); }
    void nameless(std::string_view) override {
        has_functions_ = true;
        put(nullptr);
    }

private:
    struct level {
        json value;
        std::string key; // of the member that comes next; of a list, its name
    };
    level closed() {
        level out = std::move(open_.back());
        open_.pop_back();
        return out;
    }
    void put(json value) {
        if (open_.empty()) values_.push_back(std::move(value));
        else if (auto* const list = open_.back().value.get_if<json::array>()) list->push_back(std::move(value));
        else open_.back().value[open_.back().key] = std::move(value);
    }
    // The schedules, and between them the boundaries.
    static json chain_of(json::array parts) {
        json::array schedules, boundaries;
        for (json& part : parts) (part.is_number() ? boundaries : schedules).push_back(std::move(part));
        return {{"name", "chain"}, {"schedules", std::move(schedules)}, {"boundaries", std::move(boundaries)}};
    }
    // One regularizer as it is, none and several by their names.
    static json all_of_parts(json::array parts) {
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

    std::vector<json> values_;
    std::vector<level> open_;
    bool has_functions_ = false;
};

template <class Value> json configuration_of_member(Value const& value) {
    configuration_writer out;
    visit_value(out, value);
    return std::move(out.take_complete().front());
}
// A policy with its name and all its members: what reading it gives the same policy.
template <class Policy> json configuration_of(Policy const& policy) {
    if constexpr (requires { policy.valueless_by_exception(); }) { // one of the catalogue
        return std::visit([](auto const& one) { return configuration_of(one); }, policy);
    } else {
        check(policy); // a NaN would be written as null
        return configuration_of_member(policy);
    }
}
// The policies of an updater: rule, regularizer, schedule, and how rows of tables catch up if that is told; or an average alone.
inline json configuration_of_policies(std::vector<json> policies) {
    json out;
    if (policies.size() == 1) {
        out["average"] = std::move(policies[0]);
        return out;
    }
    json::array averages;
    json rule = std::move(policies[0]);
    while (rule["name"] == "averaged") { // from the innermost one
        averages.insert(averages.begin(), std::move(rule["average"]));
        rule = json(std::move(rule["rule"]));
    }
    out["rule"] = std::move(rule);
    if (averages.size() == 1) out["average"] = std::move(averages[0]);
    else if (!averages.empty()) out["average"] = std::move(averages);
    out["regularizer"] = std::move(policies[1]);
    out["schedule"] = std::move(policies[2]);
    // Without members a catch-up policy is its name.
    if (policies.size() > 3) out["catch_up"] = policies[3].members().size() == 1 ? policies[3]["name"] : policies[3];
    return out;
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
