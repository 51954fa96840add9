#pragma once
#include <gradstep/clipping/nonfinite.hpp>

namespace gradstep {
/// The options of a model.
struct model_options {
    /// Scales all gradients by min(1, clip_norm / norm). The norm is the norm of all gradients
    /// together, gradient_scale included. Integer gradients are neither measured nor scaled, since
    /// they are counts. Infinite: no clipping, and no gradient is read for it. > 0.
    double clip_norm = std::numeric_limits<double>::infinity();
    /// What the model does if a gradient, before gradient_scale, contains NaN or infinity. It
    /// applies to all parameters together. `skip` and `raise` read every gradient once more.
    nonfinite on_nonfinite = nonfinite::propagate;
};

/// The result of an update of a model.
struct model_result {
    /// Whether the step was taken. If false, all parameters are unchanged, but zero_gradient still
    /// applies.
    bool applied = true;
    /// The norm of all gradients together, if clip_norm is finite.
    std::optional<double> norm = {};
    /// The first non-finite element, if on_nonfinite searches for it: the name of the parameter,
    /// and the index of the element.
    std::optional<std::pair<std::string, std::size_t>> nonfinite = {};
};
} // namespace gradstep
