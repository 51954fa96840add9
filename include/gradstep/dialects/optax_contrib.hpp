#pragma once
/// The rules of optax.contrib, for gradstep/dialects/optax.hpp, which has the remarks on all.

#include <gradstep/base/compiler.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/rules/ademamix.hpp>
#include <gradstep/rules/adopt.hpp>
#include <gradstep/rules/cocob.hpp>
#include <gradstep/rules/madgrad.hpp>
#include <gradstep/rules/schedule_free_adam.hpp>
#include <gradstep/rules/schedule_free_sgd.hpp>

namespace gradstep::dialects::optax {
/// The arguments of `ademamix`.
struct ademamix_arguments {
    double b1 = 0.9, b2 = 0.999, b3 = 0.9999, alpha = 5, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &ademamix_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &ademamix_arguments::b2, ranges::fraction},
                            hyperparameter{"b3", &ademamix_arguments::b3, ranges::fraction},
                            hyperparameter{"alpha", &ademamix_arguments::alpha, ranges::non_negative},
                            hyperparameter{"eps", &ademamix_arguments::eps, ranges::non_negative}};
};
/// contrib.ademamix: with constant b3 and alpha.
GRADSTEP_INLINE constexpr gradstep::ademamix ademamix(ademamix_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .beta3 = with.b3, .alpha = with.alpha, .epsilon = with.eps};
}

/// The arguments of `adopt`.
struct adopt_arguments {
    double b1 = 0.9, b2 = 0.9999, eps = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &adopt_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &adopt_arguments::b2, ranges::fraction},
                            hyperparameter{"eps", &adopt_arguments::eps, ranges::non_negative}};
};
/// contrib.adopt: clipped by (t - 1)^(1/4). Without clipping, and with nesterov, it is missing.
GRADSTEP_INLINE constexpr gradstep::adopt adopt(adopt_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps};
}

/// The arguments of `cocob`.
struct cocob_arguments {
    double alpha = 100, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"alpha", &cocob_arguments::alpha, ranges::positive},
                            hyperparameter{"eps", &cocob_arguments::eps, ranges::non_negative}};
};
/// cocob of optax.contrib: optax's default rate is 1. `weight_decay` is `l2{weight_decay}`.
GRADSTEP_INLINE constexpr gradstep::cocob cocob(cocob_arguments with = {}) {
    return {.alpha = with.alpha, .epsilon = with.eps};
}

/// The arguments of `madgrad`.
struct madgrad_arguments {
    double momentum = 0.9, eps = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &madgrad_arguments::momentum, ranges::fraction},
                            hyperparameter{"eps", &madgrad_arguments::eps, ranges::non_negative}};
};
/// madgrad of optax.contrib: optax adds eps to the rate, so use the rate lr + eps. It
/// multiplies the rate by sqrt(t) in float, even for double weights. `weight_decay` is
/// `l2{weight_decay}`.
GRADSTEP_INLINE constexpr gradstep::madgrad madgrad(madgrad_arguments with = {}) {
    return {.mu = with.momentum, .epsilon = with.eps};
}

/// The arguments of `schedule_free_sgd`.
struct schedule_free_sgd_arguments {
    double b1 = 0.9, weight_lr_power = 2;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"b1", &schedule_free_sgd_arguments::b1, ranges::positive_share},
        hyperparameter{"weight_lr_power", &schedule_free_sgd_arguments::weight_lr_power, ranges::power_of_rate}};
};
/// schedule_free_sgd of optax.contrib: optax's default rate is 1. `weight_decay` is
/// `l2{weight_decay}`. `warmup_steps` is a schedule: optax then weighs a step in the average by the
/// rate of the step after it, and gradstep by its own.
GRADSTEP_INLINE constexpr gradstep::schedule_free_sgd schedule_free_sgd(schedule_free_sgd_arguments with = {}) {
    return {.beta = with.b1, .rate_power = with.weight_lr_power};
}

/// The arguments of `schedule_free_adamw`.
struct schedule_free_adamw_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-8, weight_decay = 0, weight_lr_power = 2;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"b1", &schedule_free_adamw_arguments::b1, ranges::positive_share},
        hyperparameter{"b2", &schedule_free_adamw_arguments::b2, ranges::fraction},
        hyperparameter{"eps", &schedule_free_adamw_arguments::eps, ranges::non_negative},
        hyperparameter{"weight_decay", &schedule_free_adamw_arguments::weight_decay, ranges::non_negative},
        hyperparameter{"weight_lr_power", &schedule_free_adamw_arguments::weight_lr_power, ranges::power_of_rate}};
};
/// schedule_free_adamw of optax.contrib: optax's default rate is 0.0025. The decay belongs to the
/// rule, since it moves z too. For `warmup_steps`, see `schedule_free_sgd`.
GRADSTEP_INLINE constexpr gradstep::schedule_free_adam schedule_free_adamw(schedule_free_adamw_arguments with = {}) {
    return {.beta1 = with.b1,
            .beta2 = with.b2,
            .epsilon = with.eps,
            .decay = with.weight_decay,
            .rate_power = with.weight_lr_power};
}
} // namespace gradstep::dialects::optax
