#pragma once
#include <gradstep/config.hpp>
#include <gradstep/engine/detail/norm_limit.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

namespace gradstep {
/// The keys of an optimizer's JSON text besides its policies.
struct optimizer_options {
    /// The form in which 16-bit elements are kept.
    element_form element = element_form::plain;
    /// What a step does with a gradient that has NaN or infinity (parameter_options).
    nonfinite on_nonfinite = nonfinite::propagate;
    /// The clip, which is applied to the gradient before the regularizers. It clips by the value of
    /// each element (as the regularizer clip_value does), by the norm of the gradient, or by the
    /// norm of all gradients of the call.
    any_clip clip = none{};
    /// The seed and the id of the random numbers of stochastic rounding and noise. `seed` is
    /// for the run, unless step_options has a seed, and `id` for this parameter. >= 0.
    std::int64_t seed = 0, id = 0;
    /// The number of threads of an update, and of `apply` without an executor. 0: one for each core
    /// that the process may use. >= 0.
    std::int64_t threads = 1;

    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"element", &optimizer_options::element},
        hyperparameter{"on_nonfinite", &optimizer_options::on_nonfinite},
        hyperparameter{"clip", &optimizer_options::clip},
        hyperparameter{"seed", &optimizer_options::seed, ranges::count},
        hyperparameter{"id", &optimizer_options::id, ranges::count},
        hyperparameter{"threads", &optimizer_options::threads, ranges::count},
    };
};
} // namespace gradstep

namespace gradstep::inline GRADSTEP_ABI {
/// An optimizer's configuration: the keys of a `configuration` (config.hpp) and of
/// optimizer_options.
///
///     {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}, "element": "mixed", "threads": 0}
struct optimizer_configuration {
    configuration policies;
    optimizer_options options = {};
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// The document can also have the keys in `more`.
optimizer_configuration read_optimizer(json const& document, json_path const& at,
                                       std::vector<std::string_view> more = {});
json configuration_of(optimizer_configuration const& from);

json optimizer_schema();

// The policies that a step is compiled of: clipping by value comes before the regularizers.
configuration policies_of_step(optimizer_configuration const& from);
// The part of the clip that policies_of_step leaves: a limit of a norm.
norm_limit limit_of_step(any_clip const& clip);
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// Returns the JSON Schema of an optimizer's text. (`configuration_schema` describes the policies
/// alone.)
std::string optimizer_schema(int indent = 2);

/// Reads an optimizer from JSON text. Throws value_error for the first mistake, with its path and
/// the allowed values. `to_json` writes an optimizer, with every default.
optimizer_configuration read_optimizer(std::string_view text);
/// Reads several optimizers by name, for example one for each parameter of a model, in the order of
/// the text:
///
///     {"wide": {"rule": {"name": "ftrl"}, ...}, "deep": {"rule": {"name": "adam"}, ...}}
///
/// Throws value_error as read_optimizer does. The path begins with the name, as in
/// "deep.rule.beta1".
std::vector<std::pair<std::string, optimizer_configuration>> read_optimizers(std::string_view text);
/// Reads several optimizers from a file. Errors begin with the file's name. Throws io_error if the
/// system cannot read it.
std::vector<std::pair<std::string, optimizer_configuration>> read_optimizers_file(std::string const& path);

/// Writes the JSON text of an optimizer.
std::string to_json(optimizer_configuration const& from, int indent = -1);
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/runtime/optimizer_configuration.ipp>
#endif
