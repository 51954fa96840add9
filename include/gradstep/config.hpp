#pragma once
/// Reads policies from JSON text at run time, and writes them as JSON, with the names and members
/// that the policies have in C++. Reading is strict: an unknown or duplicate key, a number out of
/// range, or a missing key throws a value_error with the path: "rule.beta1: 1.5 is out of range;
/// expected [0, 1)".
#include <gradstep/configuration/any_schedule.hpp>
#include <gradstep/configuration/catalogue.hpp>
#include <gradstep/configuration/detail/read.hpp>
#include <gradstep/configuration/detail/write.hpp>
#include <gradstep/configuration/registry.hpp>
#include <gradstep/configuration/scheduled_number.hpp>
#include <gradstep/json/detail/json.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// The policies of one optimizer, as in a configuration:
///
///     {"rule": {"name": "adam", "beta2": 0.98},
///      "regularizer": {"name": "decoupled", "rate": 0.01},
///      "schedule": {"name": "warmup", "steps": 500, "after": {"name": "cosine", "rate": 1e-3, "steps": 10000}}}
///
/// The policies are known at run time. A program makes updaters for the policies that it wants to
/// compile:
///
///     gs::configuration const read = gs::read_configuration(text);
///     if (auto const* rule = std::get_if<gs::adam>(&read.rule))
///         train(gs::make_updater<float>(*rule, read.regularizer, read.schedule));
struct configuration {
    /// The rule. It can come from a preset of another framework, such as {"dialect": "torch",
    /// "name": "rmsprop", "alpha": 0.9}.
    any_rule rule;
    /// The averages of the weights, for `averaged`, from the innermost one; can be empty.
    std::vector<any_average> averages = {};
    /// The regularizers.
    any_regularizer regularizer = {};
    /// The schedule.
    any_schedule schedule = {};
    /// The catch-up policy of tables.
    any_catch_up catch_up = touch_only{};
    /// The hyperparameters that follow schedules. Their numbers in the policies above are the
    /// values at the start. gs::any_updater and gs::any_parameter evaluate the schedules at every
    /// step. `read_configuration` accepts numbers only, since your own updaters would ignore this
    /// list; `read_optimizer` accepts a schedule in place of any number of a rule, an average or a
    /// regularizer: {"name": "adam", "beta1": {"name": "cosine", ...}}.
    std::vector<scheduled_number> scheduled = {};
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// `more`: keys that the caller reads. `schedules_as_numbers`: a hyperparameter can be a schedule.
configuration read_configuration(json const& document, json_path const& at, std::span<std::string_view const> more = {},
                                 bool schedules_as_numbers = false);

// Calls f(number, its range) for the number of a configuration with this path (scheduled_number),
// and returns whether there is one.
template <class F> bool visit_number(configuration& of, std::string_view path, F const& f) {
    path_parts const at(path);
    auto const in = [&](auto& policy, std::string_view rest) {
        return std::visit([&](auto& one) { return visit_number(one, rest, f); }, policy);
    };
    auto const i = static_cast<std::size_t>(at.index);
    if (at.key == "rule") return in(of.rule, at.rest);
    if (at.key == "average") return i < of.averages.size() && in(of.averages[i], at.rest);
    path_parts const part(at.rest);
    std::vector<any_regularizer::part> parts(of.regularizer.parts().begin(), of.regularizer.parts().end());
    auto const k = static_cast<std::size_t>(part.index);
    if (at.key != "regularizer" || part.key != "regularizers" || k >= parts.size() || !in(parts[k], part.rest))
        return false;
    of.regularizer = any_regularizer(std::span<any_regularizer::part const>(parts));
    return true;
}
// Sets the numbers that follow schedules to their values at a clock. Throws value_error if a value
// is out of range; `largest` is the largest number of the element's arithmetic.
void move_to(configuration& of, clock now, double largest);
// The schedules that stay if the regularizer loses its decay, by the new indices of its parts.
std::vector<scheduled_number> schedules_without_decay(configuration const& of);

// Visits the rule, the averages and the regularizer, one after the other.
void visit_parts(configuration const& from, policy_visitor& to);
// For `configuration_of_policies` and checkpoints.
void visit_policies(configuration const& from, policy_visitor& to);
// Throws value_error if a number that must be the same in all steps (ranges::constant) is another
// one in `now` than in the configuration of earlier steps.
void require_same_constants(configuration const& now, configuration const& before);

json configuration_of(configuration const& from);
template <class Updater>
requires(requires(Updater const& from, policy_visitor& to) { from.visit_policies(to, true); }) json
    configuration_of(Updater const& from) {
    configuration_writer out;
    from.visit_policies(out);
    return configuration_of_policies(out.take_complete());
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// Reads the policies from JSON text. Missing keys get their defaults, except rule and schedule,
/// which are required. Throws value_error for the first mistake, with its path and the allowed
/// values.
configuration read_configuration(std::string_view text);

/// The same for a file. Errors begin with its name. Throws io_error if the system cannot open or
/// read it.
configuration read_configuration_file(std::string const& path);

/// Reads one policy of a given type. The type is a rule, a regularizer, a schedule, or another type
/// with `hyperparameters`. It can also be `any_rule`, `any_average`, `any_regularizer`,
/// `any_schedule` or `any_catch_up`. Errors name its members as "adam.beta1", or as "rule.beta1"
/// for these five types.
///
///     auto const rule = gs::read_policy<gs::adam>(R"({"beta2": 0.98})");
///     auto const schedule = gs::read_policy<gs::any_schedule>(R"({"name": "constant", "rate": 0.1})");
template <class Policy> Policy read_policy(std::string_view text) {
    return detail::read_policy<Policy>(detail::parse_json(text), detail::json_path(detail::name_of_kind<Policy>()));
}

/// Writes policies as JSON text, from which the same policies can be read. It contains every
/// member, including defaults, in the order of C++. You can pass a policy, a configuration, or an
/// updater; the element and the backend of an updater are not written. `indent` is the indentation
/// of a level; by default the text is one line. Throws value_error for a schedule that is a
/// function, and for a policy with a number that is missing or out of range.
template <class Policies> std::string to_json(Policies const& policies, int indent = -1) {
    return detail::configuration_of(policies).dump(indent);
}

/// Returns the JSON Schema (draft 2020-12) of configurations, generated from the lists that reading
/// uses. It contains every policy with its keys, their types, ranges and defaults, and the presets
/// of other frameworks. It does not contain conditions on several members, such as
/// window.min <= window.max.
std::string configuration_schema(int indent = 2);
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/config.ipp>
#endif
