#pragma once
#include <gradstep/policy/hyperparameters.hpp>

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

/// Adaptive gradient clipping (AGC) as the clip of a configuration: scales the gradient of a
/// parameter by its norm and the norm of its weights before the step.
///
///     r <- min(1, ratio * max(|w|, epsilon) / |g|)     norms over the parameter; 1 if |g| is 0
///     g <- r * g
///
/// Brock, De, Smith & Simonyan 2021, arXiv:2102.06171, equation 3. |g| includes gradient_scale. As
/// in the paper, regularizers come after it: an `l2` is not clipped. The rule `agc` of C++ comes
/// after them. The paper clips per unit, which is one output of a layer: make a parameter of each.
/// It reads gradient and weights once more. If a norm is NaN or infinity, the step is rejected.
/// Ranges: ratio > 0; epsilon >= 0.
struct clip_adaptive {
    double ratio = 0.01, epsilon = 1e-3;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"ratio", &clip_adaptive::ratio, ranges::positive},
                            hyperparameter{"epsilon", &clip_adaptive::epsilon, ranges::non_negative}};
};
} // namespace gradstep
