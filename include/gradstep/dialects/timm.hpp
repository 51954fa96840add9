#pragma once
/// The cautious optimizers of timm, by the names of its factory; compared with timm 1.0.31.
///
/// `lr` is a schedule, and `weight_decay` the regularizer `decoupled{...}`, by default 0.01 in
/// cadamw.

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/rules/cautious_adam.hpp>
#include <gradstep/rules/cautious_lion.hpp>

namespace gradstep::dialects::timm {
struct cadamw_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &cadamw_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &cadamw_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &cadamw_arguments::eps, ranges::non_negative}};
};

/// cadamw, AdamW(caution=True): C-AdamW. In timm, a weight also stays if m * g underflows.
GRADSTEP_INLINE constexpr gradstep::cautious_adam cadamw(cadamw_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps};
}

struct clion_arguments {
    double beta1 = 0.9, beta2 = 0.99;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &clion_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &clion_arguments::beta2, ranges::fraction}};
};

/// clion, Lion(caution=True): C-Lion.
GRADSTEP_INLINE constexpr gradstep::cautious_lion clion(clion_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2};
}

/// The presets of timm: name -> function, used by the configuration.
inline constexpr preset_list<cadamw, clion> presets{"timm"};
} // namespace gradstep::dialects::timm
