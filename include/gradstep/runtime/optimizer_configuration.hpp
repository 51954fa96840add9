#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/config.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

namespace gradstep {

/// What an optimizer is besides its policies, where all of it is chosen at run time.
struct optimizer_options {
    /// How elements of 16 bits are kept.
    element_form element = element_form::plain;
    /// What a gradient with elements that are not finite does (parameter_options).
    nonfinite on_nonfinite = nonfinite::propagate;
    /// Of stochastic rounding: of the run, unless step_options says one, and of this parameter. >= 0.
    std::int64_t seed = 0, id = 0;
    /// Of an update, where the program has not given an executor: 0 is as many as the machine has. >= 0.
    std::int64_t threads = 1;

    static constexpr auto members = member_list{
        member{"element", &optimizer_options::element},
        member{"on_nonfinite", &optimizer_options::on_nonfinite},
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

} // namespace detail

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
