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

/// The keys of an optimizer's text besides its policies.
struct optimizer_options {
    /// The form in which 16-bit elements are kept.
    element_form element = element_form::plain;
    /// What a step does with a gradient that has NaN or infinity (parameter_options).
    nonfinite on_nonfinite = nonfinite::propagate;
    /// Clips the gradient before the regularizers: by the value of each element (as the regularizer clip_value), by
    /// the norm of the gradient, or by the norm of all gradients of the call.
    any_clip clip = none{};
    /// `seed` and `id` choose the random numbers of stochastic rounding: `seed` for the run, unless step_options has
    /// a seed, and `id` for this parameter. >= 0.
    std::int64_t seed = 0, id = 0;
    /// The threads of an update or `apply` without an executor. 0: one for each core that the process may use. >= 0.
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

inline namespace GRADSTEP_ABI {

/// An optimizer's text: the keys of a configuration (config.hpp) and the keys of optimizer_options.
///
///     {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}, "element": "mixed", "threads": 0}
struct optimizer_configuration {
    configuration policies;
    optimizer_options options = {};
};
} // namespace GRADSTEP_ABI

namespace detail {
inline namespace GRADSTEP_ABI {

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
// The part of the clip that policies_of_step leaves: a limit of a norm.
inline norm_limit limit_of_step(any_clip const& clip) {
    auto const limit = [&](auto const* one, bool of_all) {
        if (one == nullptr) return norm_limit{};
        check(*one);
        return norm_limit{one->limit, of_all};
    };
    norm_limit const own = limit(std::get_if<clip_norm>(&clip), false);
    return own.is_none() ? limit(std::get_if<clip_global_norm>(&clip), true) : own;
}

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// The JSON Schema of an optimizer's text. (`configuration_schema` describes policies alone.)
GRADSTEP_INLINE std::string optimizer_schema(int indent = 2) { return detail::optimizer_schema().dump(indent); }

/// Reads an optimizer from a JSON text. Throws value_error for the first mistake, naming its path and what is allowed
/// there. `to_json` writes an optimizer, with every default.
GRADSTEP_INLINE optimizer_configuration read_optimizer(std::string_view text) {
    return detail::read_optimizer(detail::parse_json(text), detail::json_place());
}
/// Reads several optimizers by name, for example one for each parameter of a model, in the order of the text:
///
///     {"wide": {"rule": {"name": "ftrl"}, ...}, "deep": {"rule": {"name": "adam"}, ...}}
///
/// Throws value_error as read_optimizer; the path begins with the name, as in "deep.rule.beta1".
GRADSTEP_INLINE std::vector<std::pair<std::string, optimizer_configuration>> read_optimizers(std::string_view text) {
    detail::json const document = detail::parse_json(text);
    detail::require_object(document, detail::json_place());
    std::vector<std::pair<std::string, optimizer_configuration>> out;
    for (auto const& [name, optimizer] : document.members())
        out.emplace_back(name, detail::read_optimizer(optimizer, detail::json_place(name)));
    return out;
}
/// Reads several optimizers from a file. Errors begin with the file's name. Throws io_error if the system cannot read
/// it.
GRADSTEP_INLINE std::vector<std::pair<std::string, optimizer_configuration>>
read_optimizers_file(std::string const& path) {
    return detail::of_text_in(path, [](std::string_view text) { return read_optimizers(text); });
}

/// Writes the JSON text of an optimizer.
GRADSTEP_INLINE std::string to_json(optimizer_configuration const& from, int indent = -1) {
    return detail::configuration_of(from).dump(indent);
}

} // namespace GRADSTEP_ABI
} // namespace gradstep
