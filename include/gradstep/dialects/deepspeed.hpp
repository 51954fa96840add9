#pragma once
/// Adam of DeepSpeed. FusedAdam runs on GPUs only, so the preset is compared with a loop that was
/// written after its source.
///
/// Some of its arguments are other policies here: `lr` is a schedule; `weight_decay` is the
/// regularizer `decoupled{...}`, and `l2{...}` with adam_w_mode = False (adamw_mode in
/// DeepSpeedCPUAdam).

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/rules/adam.hpp>

namespace gradstep::dialects::deepspeed {
/// The arguments of `fused_adam` and `cpu_adam`.
struct adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &adam_arguments::eps, ranges::non_negative},
                            hyperparameter{"bias_correction", &adam_arguments::bias_correction}};
};

/// FusedAdam: epsilon is outside the root. c1 = 1 - beta1^t and c2 = 1 - beta2^t, or 1 without
/// bias_correction.
///
///     w <- w - lr * m / c1 / (sqrt(v / c2) + eps)
GRADSTEP_INLINE constexpr gradstep::adam fused_adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .bias_correction = with.bias_correction};
}

/// DeepSpeedCPUAdam: the same formula.
GRADSTEP_INLINE constexpr gradstep::adam cpu_adam(adam_arguments with = {}) { return fused_adam(with); }

/// The presets of DeepSpeed: name -> function, used by the configuration.
inline constexpr preset_list<fused_adam, cpu_adam> presets{"deepspeed"};
} // namespace gradstep::dialects::deepspeed
