#pragma once
/// Policies from a text that is read while the program runs, and texts of policies: JSON, by the names and members that the
/// policies have in C++. Reading is strict: a key that is unknown or comes twice, a number out of its range, a missing
/// piece, all are a value_error that names the place: "rule.beta1: 1.5 is not in [0, 1)".

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/config/any_schedule.hpp>
#include <gradstep/config/catalogue.hpp>
#include <gradstep/config/read.hpp>
#include <gradstep/config/registry.hpp>
#include <gradstep/config/write.hpp>
#include <gradstep/json/json.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

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
configuration read_configuration(json const& document, json_place const& at,
                                 std::span<std::string_view const> more = {});

// For `configuration_of_policies` and checkpoints.
void visit_policies(configuration const& from, policy_visitor& to);

json configuration_of(configuration const& from);
template <class Updater>
requires(requires(Updater const& from, policy_visitor& to) { from.visit_policies(to, true); }) json
    configuration_of(Updater const& from) {
    configuration_writer out;
    from.visit_policies(out);
    return configuration_of_policies(out.take_complete());
}

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// The policies in a text of JSON; what is left out has its default, but rule and schedule. Throws value_error for the first
/// thing that is wrong, naming its place and what is allowed there.
configuration read_configuration(std::string_view text);

/// The same of a file, whose name errors begin with. Throws io_error where the system does not open or read it.
configuration read_configuration_file(std::string const& path);

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

/// The JSON Schema (draft 2020-12) of configurations, made of the same lists that reading follows: every policy with its keys,
/// their types, ranges and defaults, and the presets of other systems. It does not say what concerns several members at
/// once, as window.min <= window.max.
std::string configuration_schema(int indent = 2);

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/config.ipp>
#endif
