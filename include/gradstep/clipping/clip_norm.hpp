#pragma once
#include <gradstep/core/hyperparameters.hpp>

namespace gradstep {

/// The clip of a configuration (runtime/optimizer_configuration.hpp) that scales the gradient of a
/// parameter by min(1, limit / norm). norm is the Euclidean norm of all its elements, including
/// gradient_scale: torch's clip_grad_norm_ of one tensor. It reads the gradient once more. If the
/// norm is NaN or infinity, the step is rejected. Range: limit > 0.
struct clip_norm {
    double limit = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"limit", &clip_norm::limit, ranges::positive}};
};

/// The same with one norm for the gradients of all parameters that a call updates and that have
/// this clip with the same limit: the parameters of a `gs::model`, or of `update_all`. A parameter
/// that is updated alone uses its own norm. It equals `model_options::clip_norm` bit for bit.
/// Range: limit > 0.
struct clip_global_norm {
    double limit = missing;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"limit", &clip_global_norm::limit, ranges::positive}};
};

} // namespace gradstep
