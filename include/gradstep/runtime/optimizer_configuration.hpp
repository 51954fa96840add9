#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/config.hpp>
#include <gradstep/model/norms.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

namespace gradstep {

/// What an optimizer is besides its policies, where all of it is chosen at run time.
struct optimizer_options {
    /// How elements of 16 bits are kept.
    element_form element = element_form::plain;
    /// What a gradient with elements that are not finite does (parameter_options).
    nonfinite on_nonfinite = nonfinite::propagate;
    /// What the gradient is clipped by, before the regularizers: the value of its elements, as by the regularizer clip_value, its norm,
    /// or that of all gradients of the call.
    any_clip clip = none{};
    /// Of stochastic rounding: of the run, unless step_options says one, and of this parameter. >= 0.
    std::int64_t seed = 0, id = 0;
    /// Of an update or `apply`, where the program has not given an executor: 0 is one for each core that the process may use. >= 0.
    std::int64_t threads = 1;

    static constexpr auto members = member_list{
        member{"element", &optimizer_options::element},
        member{"on_nonfinite", &optimizer_options::on_nonfinite},
        member{"clip", &optimizer_options::clip},
        member{"seed", &optimizer_options::seed, ranges::count},
        member{"id", &optimizer_options::id, ranges::count},
        member{"threads", &optimizer_options::threads, ranges::count},
    };
};

inline namespace GRADSTEP_ISA {

/// An optimizer as a text has it: the keys of a configuration (config.hpp), and those of optimizer_options.
///
///     {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}, "element": "mixed", "threads": 0}
struct optimizer_configuration {
    configuration policies;
    optimizer_options options = {};
};

namespace detail {

inline optimizer_configuration read_optimizer(json const& document, json_place const& at) {
    std::vector<std::string_view> keys;
    optimizer_options::members.for_each([&](auto const& m) { keys.push_back(m.name); });
    optimizer_configuration out{read_configuration(document, at, keys)};
    for_each_member(optimizer_options{}, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        if (json const* const found = document.find(m.name))
            out.options.*m.at = read_value<value_type>(*found, json_place(at, m.name), m.allowed);
    });
    return out;
}
inline json configuration_of(optimizer_configuration const& from) {
    json out = configuration_of(from.policies);
    for_each_member(from.options,
                    [&](auto const& m, auto const& value) { out[m.name] = configuration_of_member(value); });
    return out;
}

inline json optimizer_schema() {
    json out = schema();
    out["$defs"]["clip"] = {{"oneOf", schemas_of<clips>()}};
    for_each_member(optimizer_options{}, [&](auto const& m, auto const& value) {
        json& key = out["properties"][m.name] = schema_of_member<std::remove_cvref_t<decltype(value)>>(m.allowed);
        key["default"] = configuration_of_member(value);
    });
    return out;
}

// The policies that a step is compiled of: clipping by value comes before the regularizers.
inline configuration policies_of_step(optimizer_configuration const& from) {
    configuration out = from.policies;
    if (auto const* const clip = std::get_if<clip_value>(&from.options.clip)) {
        std::vector<any_regularizer::part> parts{*clip};
        parts.insert(parts.end(), out.regularizer.parts().begin(), out.regularizer.parts().end());
        out.regularizer = any_regularizer(std::span<any_regularizer::part const>(parts));
    }
    return out;
}
// What is left of the clip.
inline norm_limit limit_of_step(any_clip const& clip) {
    auto const limit = [&](auto const* one, bool of_all) {
        if (one == nullptr) return norm_limit{};
        check(*one);
        return norm_limit{one->limit, of_all};
    };
    norm_limit const own = limit(std::get_if<clip_norm>(&clip), false);
    return own.is_none() ? limit(std::get_if<clip_global_norm>(&clip), true) : own;
}

} // namespace detail

/// The JSON Schema of optimizers, as configuration_schema is that of policies alone.
GRADSTEP_INLINE std::string optimizer_schema(int indent = 2) { return detail::optimizer_schema().dump(indent); }

/// The optimizer in a text of JSON. Throws value_error for the first thing that is wrong, naming its place and what is allowed
/// there. `to_json` writes it, with every default.
GRADSTEP_INLINE optimizer_configuration read_optimizer(std::string_view text) {
    return detail::read_optimizer(detail::parse_json(text), detail::json_place());
}
/// Optimizers by the names of what they are for, as of the parameters of a model, in the order of the text:
///
///     {"wide": {"rule": {"name": "ftrl"}, ...}, "deep": {"rule": {"name": "adam"}, ...}}
///
/// Throws value_error as read_optimizer, naming the place, as "deep.rule.beta1".
GRADSTEP_INLINE std::vector<std::pair<std::string, optimizer_configuration>> read_optimizers(std::string_view text) {
    detail::json const document = detail::parse_json(text);
    detail::require_object(document, detail::json_place());
    std::vector<std::pair<std::string, optimizer_configuration>> out;
    for (auto const& [name, optimizer] : document.members())
        out.emplace_back(name, detail::read_optimizer(optimizer, detail::json_place(name)));
    return out;
}
/// Those of a file, whose name errors begin with. Throws io_error where the system does not open or read it.
GRADSTEP_INLINE std::vector<std::pair<std::string, optimizer_configuration>>
read_optimizers_file(std::string const& path) {
    return detail::of_text_in(path, [](std::string_view text) { return read_optimizers(text); });
}

/// The text of it, as that of a configuration.
GRADSTEP_INLINE std::string to_json(optimizer_configuration const& from, int indent = -1) {
    return detail::configuration_of(from).dump(indent);
}

} // namespace GRADSTEP_ISA
} // namespace gradstep
