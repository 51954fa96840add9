#pragma once
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <gradstep/clipping/nonfinite.hpp>

namespace gradstep {

/// What a model does beyond its parameters.
struct model_options {
    /// Scales all gradients by min(1, clip_norm / norm). The norm is the norm of all gradients
    /// together, gradient_scale included. Integer gradients are neither measured nor scaled, since
    /// they are counts. Infinite: no clipping, and no gradient is read for it. > 0.
    double clip_norm = std::numeric_limits<double>::infinity();
    /// What the model does if a gradient, before gradient_scale, has an element that is not finite.
    /// It applies to all parameters together. `skip` and `raise` read every gradient once more.
    nonfinite on_nonfinite = nonfinite::propagate;
};

/// What an update of a model has done.
struct model_result {
    /// Whether the step was taken; false leaves every parameter as it was (zero_gradient is done).
    bool applied = true;
    /// The norm of all gradients together, if clip_norm is finite.
    std::optional<double> norm = {};
    /// If on_nonfinite searches for elements that are not finite, the first one that was found: the
    /// name of the parameter, and the number of the element.
    std::optional<std::pair<std::string, std::size_t>> nonfinite = {};
};

} // namespace gradstep
