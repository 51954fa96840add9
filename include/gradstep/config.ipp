#pragma once
#include <gradstep/configuration/detail/schema.hpp>
#include <gradstep/configuration/detail/text_file.hpp>
#include <gradstep/policy/detail/constant_numbers.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE configuration read_configuration(json const& document, json_path const& at,
                                                 std::span<std::string_view const> more, bool schedules_as_numbers) {
    require_object(document, at);
    constexpr char const* of_editors = "$schema"; // editors find the schema of the file here
    std::vector<std::string_view> keys{"rule", "average", "regularizer", "schedule", "catch_up"};
    keys.insert(keys.end(), more.begin(), more.end());
    refuse_other_keys(document, at, keys, of_editors);
    if (json const* const found = document.find(of_editors); found != nullptr && !found->is_string())
        refuse_type(json_path(at, of_editors), *found, "a word");
    number_schedules schedules;
    auto const part = [&](char const* key, auto const& read, number_schedules* numbers = nullptr) {
        if (json const* const found = document.find(key)) read(*found, json_path(at, key, numbers));
    };
    auto const part_of_numbers = [&](char const* key, auto const& read) {
        part(key, read, schedules_as_numbers ? &schedules : nullptr);
    };
    auto const required = [&](char const* key, char const* example) {
        if (document.find(key) == nullptr) json_path(at, key).refuse_missing({"one, as ", example});
    };
    required("rule", "{\"name\": \"sgd\"}");
    required("schedule", "{\"name\": \"constant\", \"rate\": 0.1}");
    configuration out;
    part_of_numbers("rule", [&](json const& value, json_path const& there) {
        out.rule = read_policy<any_rule>(value, there);
        schedules.move(0, there.text().size(), "rule");
    });
    part_of_numbers("average", [&](json const& value, json_path const& there) {
        std::size_t const first = schedules.size();
        if (value.is_array()) out.averages = read_value<std::vector<any_average>>(value, there, 0);
        else out.averages.push_back(read_policy<any_average>(value, there));
        schedules.move(first, there.text().size(), value.is_array() ? "average" : "average[0]");
    });
    part_of_numbers("regularizer", [&](json const& value, json_path const& there) {
        std::size_t const first = schedules.size();
        out.regularizer = read_policy<any_regularizer>(value, there);
        schedules.move(first, 0, "regularizer.regularizers");
    });
    part("schedule",
         [&](json const& value, json_path const& there) { out.schedule = read_policy<any_schedule>(value, there); });
    part("catch_up",
         [&](json const& value, json_path const& there) { out.catch_up = read_policy<any_catch_up>(value, there); });
    out.scheduled = std::move(schedules.all);
    return out;
}

GRADSTEP_DEFINE void visit_rule(configuration const& from, policy_visitor& to) {
    visit_scheduled(to, from.rule, "rule.", from.scheduled);
}
GRADSTEP_DEFINE void visit_average(configuration const& from, std::size_t i, policy_visitor& to) {
    visit_scheduled(to, from.averages[i], joined({"average[", i, "]."}), from.scheduled);
}
GRADSTEP_DEFINE void visit_regularizer(configuration const& from, policy_visitor& to) {
    auto const parts = from.regularizer.parts();
    if (from.scheduled.empty() || parts.empty()) return visit_policy(to, from.regularizer);
    if (parts.size() > 1) to.begin_list("all_of");
    for (std::size_t i = 0; i != parts.size(); ++i)
        visit_scheduled(to, parts[i], joined({"regularizer.regularizers[", i, "]."}), from.scheduled);
    if (parts.size() > 1) to.end_list();
}

GRADSTEP_DEFINE void visit_parts(configuration const& from, policy_visitor& to) {
    visit_rule(from, to);
    for (std::size_t i = 0; i != from.averages.size(); ++i) visit_average(from, i, to);
    visit_regularizer(from, to);
}

GRADSTEP_DEFINE void visit_policies(configuration const& from, policy_visitor& to) {
    for (std::size_t i = 0; i != from.averages.size(); ++i) {
        to.begin("averaged");
        to.hyperparameter("rule");
    }
    visit_rule(from, to);
    for (std::size_t i = 0; i != from.averages.size(); ++i) {
        to.hyperparameter("average");
        visit_average(from, i, to);
        to.end();
    }
    visit_regularizer(from, to);
    visit_policy(to, from.schedule);
    visit_policy(to, from.catch_up);
}

GRADSTEP_DEFINE void require_same_constants(configuration const& now, configuration const& before) {
    policy_numbers of_now, of_before;
    visit_policies(now, of_now);
    visit_policies(before, of_before);
    require_same_constants("", of_now, " now", of_before, " in earlier steps");
}

GRADSTEP_DEFINE std::vector<scheduled_number> schedules_without_decay(configuration const& of) {
    std::vector<scheduled_number> out;
    for (scheduled_number const& one : of.scheduled)
        if (!one.path.starts_with("regularizer.")) out.push_back(one);
    std::size_t before = 0, after = 0;
    for (any_regularizer::part const& part : of.regularizer.parts()) {
        std::string const from = joined({"regularizer.regularizers[", before++, "]"});
        if (any_regularizer(std::span(&part, 1)).without_decay().parts().empty()) continue;
        std::string const to = joined({"regularizer.regularizers[", after++, "]"});
        for (scheduled_number const& one : of.scheduled)
            if (one.path.starts_with(from)) out.push_back({to + one.path.substr(from.size()), one.schedule});
    }
    return out;
}

GRADSTEP_DEFINE void move_to(configuration& of, clock now, double largest) {
    for (scheduled_number const& one : of.scheduled) {
        double const value = one.schedule(now);
        bool const found = visit_number(of, one.path, [&](double& x, range const& allowed) {
            if (allowed.is_constant)
                fail<value_error>({one.path}, {"follows a schedule, and it must be the same in all steps"},
                                  {"a number"});
            x = value;
            check_scheduled([&] { return one.path; }, now.step + 1, value, allowed, largest);
        });
        if (!found)
            fail<value_error>({"configuration.scheduled"}, {in_quotes(one.path), " is no number of the policies"},
                              {"the path of a number, as \"rule.beta1\""});
    }
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
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE configuration read_configuration(std::string_view text) {
    return detail::read_configuration(detail::parse_json(text), detail::json_path());
}

GRADSTEP_DEFINE configuration read_configuration_file(std::string const& path) {
    return detail::of_text_in(path, [](std::string_view text) { return read_configuration(text); });
}

GRADSTEP_DEFINE std::string configuration_schema(int indent) { return detail::schema().dump(indent); }
} // namespace gradstep::inline GRADSTEP_ABI
