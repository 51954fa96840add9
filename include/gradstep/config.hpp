#pragma once
/// Policies from a text that is read while the program runs, and texts of policies: JSON, by the names and members that the
/// policies have in C++. Reading is strict: a key that is unknown or comes twice, a number out of its range, a missing
/// piece, all are a value_error that names the place: "rule.beta1: 1.5 is not in [0, 1)".

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/config/any_schedule.hpp>
#include <gradstep/config/catalogue.hpp>
#include <gradstep/config/read.hpp>
#include <gradstep/config/schema.hpp>
#include <gradstep/config/write.hpp>
#include <gradstep/core/file.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// The policies of one optimizer, as a configuration has them:
///
///     {"rule": {"name": "adam", "beta2": 0.98},
///      "regularizer": {"name": "decoupled", "rate": 0.01},
///      "schedule": {"name": "warmup", "steps": 500, "after": {"name": "cosine", "rate": 1e-3, "steps": 10000}}}
///
/// What they are is known at run time; a program makes updaters of those that it wants to have compiled:
///
///     gs::configuration const read = gs::read_configuration(text);
///     if (auto const* rule = std::get_if<gs::adam>(&read.rule))
///         train(gs::make_updater<float>(*rule, read.regularizer, read.schedule));
struct configuration {
    /// The rule; or, from a preset of another system, as {"dialect": "torch", "name": "rmsprop", "alpha": 0.9}, the rule
    /// that it stands for.
    any_rule rule;
    /// The averages of the weights, for `averaged`, from the innermost one; none where there are none.
    std::vector<any_average> averages = {};
    /// The regularizers, and the schedule.
    any_regularizer regularizer = {};
    any_schedule schedule = {};
    /// How rows of tables catch up.
    any_catch_up catch_up = touch_only{};
};
} // namespace GRADSTEP_ABI

namespace detail {
inline namespace GRADSTEP_ABI {

// `more` are keys that the caller reads.
inline configuration read_configuration(json const& document, json_place const& at,
                                        std::span<std::string_view const> more = {}) {
    require_object(document, at);
    constexpr char const* of_editors = "$schema"; // where an editor finds the schema of the file
    std::vector<std::string_view> keys{"rule", "average", "regularizer", "schedule", "catch_up"};
    keys.insert(keys.end(), more.begin(), more.end());
    refuse_other_keys(document, at, keys, of_editors);
    if (json const* const found = document.find(of_editors); found != nullptr && !found->is_string())
        refuse_type(json_place(at, of_editors), *found, "a word");
    auto const part = [&](char const* key, auto const& read) {
        if (json const* const found = document.find(key)) read(*found, json_place(at, key));
    };
    auto const required = [&](char const* key, char const* example) {
        if (document.find(key) == nullptr) json_place(at, key).refuse_missing({"give one, as ", example});
    };
    required("rule", "{\"name\": \"sgd\"}");
    required("schedule", "{\"name\": \"constant\", \"rate\": 0.1}");
    configuration out;
    part("rule", [&](json const& value, json_place const& there) { out.rule = read_policy<any_rule>(value, there); });
    part("average", [&](json const& value, json_place const& there) {
        if (!value.is_array()) return out.averages.push_back(read_policy<any_average>(value, there));
        out.averages = read_value<std::vector<any_average>>(value, there, 0);
    });
    part("regularizer", [&](json const& value, json_place const& there) {
        out.regularizer = read_policy<any_regularizer>(value, there);
    });
    part("schedule",
         [&](json const& value, json_place const& there) { out.schedule = read_policy<any_schedule>(value, there); });
    part("catch_up",
         [&](json const& value, json_place const& there) { out.catch_up = read_policy<any_catch_up>(value, there); });
    return out;
}

// For `configuration_of_policies` and checkpoints.
inline void visit_policies(configuration const& from, policy_visitor& to) {
    for (std::size_t i = 0; i != from.averages.size(); ++i) {
        to.begin("averaged");
        to.member("rule");
    }
    visit_policy(to, from.rule);
    for (any_average const& one : from.averages) {
        to.member("average");
        visit_policy(to, one);
        to.end();
    }
    visit_policy(to, from.regularizer);
    visit_policy(to, from.schedule);
    visit_policy(to, from.catch_up);
}

inline json configuration_of(configuration const& from) {
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
template <class Element, class Rule, class Regularizer, class Schedule, class Backend>
json configuration_of(updater<Element, Rule, Regularizer, Schedule, Backend> const& from) {
    configuration_writer out;
    from.visit_policies(out);
    return configuration_of_policies(out.take_complete());
}

// read(text) of a file, whose name what it refuses begins with.
template <class Read> auto of_text_in(std::string const& path, Read const& read) {
    input_file const file(path);
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text.data(), text.size())));
    return translating<value_error>([&] { return read(std::string_view(text)); },
                                    [&](value_error const& wrong) {
                                        fail<value_error>({path, ": ", wrong.what()});
                                    });
}

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// The policies in a text of JSON; what is left out has its default, but rule and schedule. Throws value_error for the first
/// thing that is wrong, naming its place and what is allowed there.
GRADSTEP_INLINE configuration read_configuration(std::string_view text) {
    return detail::read_configuration(detail::parse_json(text), detail::json_place());
}

/// The same of a file, whose name errors begin with. Throws io_error where the system does not open or read it.
GRADSTEP_INLINE configuration read_configuration_file(std::string const& path) {
    return detail::of_text_in(path, [](std::string_view text) { return read_configuration(text); });
}

/// One policy of a type that is known: a rule, a regularizer, a schedule, or any other type with `members`; or one of
/// `any_rule`, `any_average`, `any_regularizer`, `any_schedule`, `any_catch_up`. Errors name its members as "adam.beta1", or
/// "rule.beta1" where the type is one of these five.
///
///     auto const rule = gs::read_policy<gs::adam>(R"({"beta2": 0.98})");
///     auto const schedule = gs::read_policy<gs::any_schedule>(R"({"name": "constant", "rate": 0.1})");
template <class Policy> Policy read_policy(std::string_view text) {
    return detail::read_policy<Policy>(detail::parse_json(text), detail::json_place(detail::name_of_place<Policy>()));
}

/// The text that gives the same policies when it is read: with every member, also those that have their default, in the
/// order of C++. Of a policy, a configuration, or an updater, whose element and backend are no part of it. `indent` is that
/// of a level; by default all is one line. Throws value_error for a schedule that is a function,
/// and for a policy with a number that is missing or out of range.
template <class Policies> std::string to_json(Policies const& policies, int indent = -1) {
    return detail::configuration_of(policies).dump(indent);
}

} // namespace GRADSTEP_ABI
} // namespace gradstep
