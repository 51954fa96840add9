#pragma once
/// The optimizers of mlx, with its arguments and defaults; compared with mlx 0.32.4 on the CPU, in
/// float.
///
/// Some of mlx's arguments are other policies here: `learning_rate` is a schedule, `weight_decay`
/// the regularizer `l2{...}` for SGD, and `decoupled{...}` for AdamW (0.01 by default) and Lion.
/// mlx's Adafactor and Muon have other formulas than the rules of these names here. SGD's dampening
/// has no preset: mlx dampens the first gradient too.

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/rules/adadelta.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/adamax.hpp>
#include <gradstep/rules/lion.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/sgd.hpp>

namespace gradstep::dialects::mlx {
/// SGD(): gradient descent.
///
///     w <- w - lr * g
GRADSTEP_INLINE constexpr gradstep::sgd sgd() { return {}; }

/// The argument of `sgd_momentum` and `sgd_nesterov`, which mlx has no default for.
struct momentum_arguments {
    double momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &momentum_arguments::momentum, ranges::fraction}};
};

/// SGD(momentum): the rate is outside the buffer.
///
///     v <- momentum * v + g
///     w <- w - lr * v
GRADSTEP_INLINE constexpr gradstep::momentum sgd_momentum(momentum_arguments with = {}) {
    return {.mu = with.momentum};
}

/// SGD(momentum, nesterov=True).
///
///     w <- w - lr * (g + momentum * v)
GRADSTEP_INLINE constexpr gradstep::nesterov sgd_nesterov(momentum_arguments with = {}) {
    return {.mu = with.momentum};
}

struct rmsprop_arguments {
    double alpha = 0.99, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"alpha", &rmsprop_arguments::alpha, ranges::fraction},
                            hyperparameter{"eps", &rmsprop_arguments::eps, ranges::non_negative}};
};

/// RMSprop(): epsilon is outside the root.
GRADSTEP_INLINE constexpr gradstep::rmsprop rmsprop(rmsprop_arguments with = {}) {
    return {.rho = with.alpha, .epsilon = with.eps};
}

struct adagrad_arguments {
    double eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"eps", &adagrad_arguments::eps, ranges::non_negative}};
};

/// Adagrad(): epsilon is outside the root, and the sum begins at 0.
GRADSTEP_INLINE constexpr gradstep::adagrad adagrad(adagrad_arguments with = {}) {
    return {.epsilon = with.eps, .initial_accumulator = 0, .epsilon_place = epsilon::outside};
}

struct adadelta_arguments {
    double rho = 0.9, eps = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &adadelta_arguments::rho, ranges::fraction},
                            hyperparameter{"eps", &adadelta_arguments::eps, ranges::non_negative}};
};

/// AdaDelta(): the same as in other frameworks.
GRADSTEP_INLINE constexpr gradstep::adadelta adadelta(adadelta_arguments with = {}) {
    return {.rho = with.rho, .epsilon = with.eps};
}

/// The arguments of `adam` and `adamw`.
struct adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    bool bias_correction = false;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &adam_arguments::eps, ranges::non_negative},
                            hyperparameter{"bias_correction", &adam_arguments::bias_correction}};
};

/// Adam(): epsilon is outside the root, and there is no bias correction by default.
///
///     w <- w - lr * m / (sqrt(v) + eps)
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .bias_correction = with.bias_correction};
}

/// AdamW(): the same rule. Add the regularizer `decoupled{0.01}`.
GRADSTEP_INLINE constexpr gradstep::adam adamw(adam_arguments with = {}) { return adam(with); }

struct adamax_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adamax_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adamax_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &adamax_arguments::eps, ranges::non_negative}};
};

/// Adamax(): epsilon is outside the maximum, and there is no bias correction.
///
///     u <- max(beta2 * u, |g|)
///     w <- w - lr * m / (u + eps)
GRADSTEP_INLINE constexpr gradstep::adamax adamax(adamax_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .bias_correction = false};
}

struct lion_arguments {
    double beta1 = 0.9, beta2 = 0.99;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &lion_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &lion_arguments::beta2, ranges::fraction}};
};

/// Lion(): the same as in other frameworks.
GRADSTEP_INLINE constexpr gradstep::lion lion(lion_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2};
}

/// The presets of mlx: name -> function, used by the configuration.
inline constexpr preset_list<sgd, sgd_momentum, sgd_nesterov, rmsprop, adagrad, adadelta, adam, adamw, adamax, lion>
    presets{"mlx"};
} // namespace gradstep::dialects::mlx
