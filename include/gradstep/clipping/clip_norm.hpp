#pragma once
#include <gradstep/core/hyperparameters.hpp>

namespace gradstep {

/// The clip of a configuration (runtime/optimizer_configuration.hpp) that scales the gradient of a parameter by
/// min(1, limit / norm), norm being the Euclidean norm of all its elements, gradient_scale included: torch's clip_grad_norm_ of one
/// tensor. The gradient is read once more. A norm that is not finite refuses the step. Range: limit > 0.
struct clip_norm {
    double limit = missing;
    static constexpr auto members = member_list{member{"limit", &clip_norm::limit, ranges::positive}};
};

/// The same by the norm of the gradients of all parameters together that a call updates and that have this clip with the same limit:
/// of a `gs::model`, or of `update_all`; a parameter that is updated alone has its own norm. To the bit it is
/// `model_options::clip_norm`. Range: limit > 0.
struct clip_global_norm {
    double limit = missing;
    static constexpr auto members = member_list{member{"limit", &clip_global_norm::limit, ranges::positive}};
};

} // namespace gradstep
