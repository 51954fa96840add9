#pragma once
/// The rules of Keras 3, with Keras' arguments and defaults; compared with Keras 3.15.1 on
/// TensorFlow 2.21.
///
/// Some of Keras' arguments are other policies here:
///
/// - `learning_rate` is a schedule;
/// - `weight_decay` is `decoupled{...}`, before the step, for every optimizer;
/// - `clipvalue` is `clip_value{...}`;
/// - `clipnorm` and `global_clipnorm` are `clip_scale(norm, limit)` as gradient_scale, and
///   `loss_scale_factor` is its inverse;
/// - `use_ema` is `averaged{rule, ema{...}}`, which starts from the weights before the first step;
///   Keras starts from the weights after it.
///
/// Known inaccuracies of Keras: it computes bias corrections in the type of the variable, from a
/// beta rounded to this type. In float32, 1 - 0.999^t therefore has a relative error of 1.3e-5 at
/// the first step. On TensorFlow, some numbers pass through float32 even in a float64 run: the
/// momentum of SGD, the betas of bias corrections, of Lion and Nadam, and initial accumulators.
///
/// `make_updater` checks the numbers under the rule's names, after the conversion here: an l2 of
/// ftrl appears doubled. `check_policy(arguments)` checks the arguments under Keras' names, and
/// rejects what Keras rejects.

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/rules/adadelta.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/adamax.hpp>
#include <gradstep/rules/amsgrad.hpp>
#include <gradstep/rules/centered_momentum_rmsprop.hpp>
#include <gradstep/rules/centered_rmsprop.hpp>
#include <gradstep/rules/constant_rate_ftrl.hpp>
#include <gradstep/rules/lamb.hpp>
#include <gradstep/rules/lion.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/momentum_rmsprop.hpp>
#include <gradstep/rules/nadam.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/sgd.hpp>

namespace gradstep::dialects::keras {
/// SGD(): gradient descent.
///
///     w <- w - lr * g
GRADSTEP_INLINE constexpr gradstep::sgd sgd() { return {}; }

/// The arguments of `sgd_momentum` and `sgd_nesterov`. Keras' default of momentum is 0, which is
/// sgd().
struct sgd_momentum_arguments {
    double momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &sgd_momentum_arguments::momentum, ranges::fraction}};
};

/// SGD(momentum): the rate is inside the buffer.
///
///     v <- momentum * v - lr * g
///     w <- w + v
///
/// Slot m is Keras' v. If the rate changes, old gradients keep the rate of their step, unlike in
/// torch and TensorFlow's MomentumOptimizer.
GRADSTEP_INLINE constexpr gradstep::momentum sgd_momentum(sgd_momentum_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::inside};
}

/// SGD(momentum, nesterov=True): Nesterov's momentum, with the rate inside the buffer.
///
///     v <- momentum * v - lr * g
///     w <- w + momentum * v - lr * g
GRADSTEP_INLINE constexpr gradstep::nesterov sgd_nesterov(sgd_momentum_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::inside};
}

struct rmsprop_arguments {
    double rho = 0.9, epsilon = 1e-7;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &rmsprop_arguments::rho, ranges::fraction},
                            hyperparameter{"epsilon", &rmsprop_arguments::epsilon, ranges::non_negative}};
};

/// RMSprop(): epsilon is inside the root.
///
///     n <- rho * n + (1 - rho) * g^2
///     w <- w - lr * g / sqrt(n + epsilon)
///
/// Compared with torch's epsilon outside the root, it has the weight of sqrt(1e-7) = 3e-4.
GRADSTEP_INLINE constexpr gradstep::rmsprop rmsprop(rmsprop_arguments with = {}) {
    return {.rho = with.rho, .epsilon = with.epsilon, .epsilon_place = epsilon::inside};
}

/// RMSprop(centered=True): the root is sqrt(n - a^2 + epsilon), with a <- rho * a + (1 - rho) * g.
///
/// If rounding makes n - a^2 negative, it is 0 here. Keras gives NaN unless epsilon is large
/// enough.
GRADSTEP_INLINE constexpr gradstep::centered_rmsprop rmsprop_centered(rmsprop_arguments with = {}) {
    return {.rho = with.rho, .epsilon = with.epsilon, .epsilon_place = epsilon::inside};
}

/// The arguments of RMSprop with momentum. Keras' default of momentum is 0, which is rmsprop().
struct rmsprop_momentum_arguments {
    double rho = 0.9, momentum = 0.9, epsilon = 1e-7;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &rmsprop_momentum_arguments::rho, ranges::fraction},
                            hyperparameter{"momentum", &rmsprop_momentum_arguments::momentum, ranges::fraction},
                            hyperparameter{"epsilon", &rmsprop_momentum_arguments::epsilon, ranges::non_negative}};
};

/// RMSprop(momentum): the rate is inside the buffer.
///
///     b <- momentum * b + lr * g / sqrt(n + epsilon)
///     w <- w - b
GRADSTEP_INLINE constexpr gradstep::momentum_rmsprop rmsprop_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = with.rho,
            .epsilon = with.epsilon,
            .mu = with.momentum,
            .epsilon_place = epsilon::inside,
            .rate_place = learning_rate::inside};
}

/// RMSprop(momentum, centered=True): it has the root of rmsprop_centered and the buffer of
/// rmsprop_momentum.
GRADSTEP_INLINE constexpr gradstep::centered_momentum_rmsprop
rmsprop_centered_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = with.rho,
            .epsilon = with.epsilon,
            .mu = with.momentum,
            .epsilon_place = epsilon::inside,
            .rate_place = learning_rate::inside};
}

struct adam_arguments {
    double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta_1", &adam_arguments::beta_1, ranges::fraction},
                            hyperparameter{"beta_2", &adam_arguments::beta_2, ranges::fraction},
                            hyperparameter{"epsilon", &adam_arguments::epsilon, ranges::non_negative}};
};

/// Adam(): with the paper's epsilon-hat.
///
///     w <- w - lr * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon)
///
/// epsilon-hat is larger than torch's epsilon by 1 / sqrt(1 - beta_2^t), 32 times at the first
/// step.
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta_1, .beta2 = with.beta_2, .epsilon = with.epsilon, .epsilon_place = epsilon::hat};
}

/// Adam(amsgrad=True): the root contains v_max instead of v, where v_max <- max(v_max, v).
GRADSTEP_INLINE constexpr gradstep::amsgrad adam_amsgrad(adam_arguments with = {}) {
    return {.beta1 = with.beta_1, .beta2 = with.beta_2, .epsilon = with.epsilon, .epsilon_place = epsilon::hat};
}

/// AdamW(): the same rule as Adam(). Add the regularizer `decoupled{0.004}`, Keras' default of
/// weight_decay.
GRADSTEP_INLINE constexpr gradstep::adam adamw(adam_arguments with = {}) { return adam(with); }

/// AdamW(amsgrad=True): the same rule as Adam(amsgrad=True). Add the regularizer `decoupled`, as in
/// adamw.
GRADSTEP_INLINE constexpr gradstep::amsgrad adamw_amsgrad(adam_arguments with = {}) { return adam_amsgrad(with); }

struct adadelta_arguments {
    double rho = 0.95, epsilon = 1e-7;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &adadelta_arguments::rho, ranges::fraction},
                            hyperparameter{"epsilon", &adadelta_arguments::epsilon, ranges::non_negative}};
};

/// Adadelta(): the same as in other frameworks. The rate multiplies the step; its default is 0.001,
/// in torch 1.
GRADSTEP_INLINE constexpr gradstep::adadelta adadelta(adadelta_arguments with = {}) {
    return {.rho = with.rho, .epsilon = with.epsilon};
}

struct adagrad_arguments {
    double initial_accumulator_value = 0.1, epsilon = 1e-7;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"initial_accumulator_value", &adagrad_arguments::initial_accumulator_value,
                                           ranges::non_negative},
                            hyperparameter{"epsilon", &adagrad_arguments::epsilon, ranges::non_negative}};
};

/// Adagrad(): epsilon is inside the root.
///
///     n <- n + g^2
///     w <- w - lr * g / sqrt(n + epsilon)
GRADSTEP_INLINE constexpr gradstep::adagrad adagrad(adagrad_arguments with = {}) {
    return {.epsilon = with.epsilon,
            .initial_accumulator = with.initial_accumulator_value,
            .epsilon_place = epsilon::inside};
}

/// Adamax(): epsilon is outside the maximum.
///
///     u <- max(beta_2 * u, |g|)
///     w <- w - lr / (1 - beta_1^t) * m / (u + epsilon)
GRADSTEP_INLINE constexpr gradstep::adamax adamax(adam_arguments with = {}) {
    return {.beta1 = with.beta_1, .beta2 = with.beta_2, .epsilon = with.epsilon, .epsilon_place = epsilon::outside};
}

/// Nadam(): Dozat's form, with mu_t = beta_1 * (1 - 0.5 * 0.96^t); torch has 0.96^(0.004 * t). The
/// epsilon is not epsilon-hat.
GRADSTEP_INLINE constexpr gradstep::nadam nadam(adam_arguments with = {}) {
    return {.beta1 = with.beta_1,
            .beta2 = with.beta_2,
            .epsilon = with.epsilon,
            .momentum_decay = 1,
            .epsilon_place = epsilon::outside};
}

struct ftrl_arguments {
    double learning_rate_power = -0.5, initial_accumulator_value = 0.1, l1_regularization_strength = 0,
           l2_regularization_strength = 0, l2_shrinkage_regularization_strength = 0, beta = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"learning_rate_power", &ftrl_arguments::learning_rate_power, ranges::not_positive},
        hyperparameter{"initial_accumulator_value", &ftrl_arguments::initial_accumulator_value, ranges::non_negative},
        hyperparameter{"l1_regularization_strength", &ftrl_arguments::l1_regularization_strength, ranges::non_negative},
        hyperparameter{"l2_regularization_strength", &ftrl_arguments::l2_regularization_strength, ranges::non_negative},
        hyperparameter{"l2_shrinkage_regularization_strength", &ftrl_arguments::l2_shrinkage_regularization_strength,
                       ranges::non_negative},
        hyperparameter{"beta", &ftrl_arguments::beta, ranges::non_negative}};
};

/// Ftrl(): FTRL for a constant rate. l2 counts twice, and beta is as in the paper.
///
///     z <- z + g + 2 * l2_shrinkage * w - (n'^p - n^p) / lr * w,    p = -learning_rate_power,    n' = n + g^2
///     w <- (clip(z, -l1, l1) - z) / ((beta + n'^p) / lr + 2 * l2)
///
/// With a schedule it is not FTRL-Proximal. Use gradstep::ftrl for that.
GRADSTEP_INLINE constexpr gradstep::constant_rate_ftrl ftrl(ftrl_arguments with = {}) {
    return {.l1 = with.l1_regularization_strength,
            .l2 = 2 * with.l2_regularization_strength,
            .beta = with.beta,
            .lr_power = with.learning_rate_power,
            .initial_accumulator = with.initial_accumulator_value,
            .l2_shrinkage = with.l2_shrinkage_regularization_strength};
}

/// The arguments of `lion`. Keras rejects a beta_1 of 0.
struct lion_arguments {
    double beta_1 = 0.9, beta_2 = 0.99;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta_1", &lion_arguments::beta_1, ranges::positive_fraction},
                            hyperparameter{"beta_2", &lion_arguments::beta_2, ranges::fraction}};
};

/// Lion(): as in the paper; sgn(0) = 0.
GRADSTEP_INLINE constexpr gradstep::lion lion(lion_arguments with = {}) {
    return {.beta1 = with.beta_1, .beta2 = with.beta_2};
}

/// Lamb(): it uses the ratio of norms of the whole variable. The weight decay is not part of the
/// ratio: it is the regularizer `decoupled`.
GRADSTEP_INLINE constexpr gradstep::lamb lamb(adam_arguments with = {}) {
    return {.beta1 = with.beta_1, .beta2 = with.beta_2, .epsilon = with.epsilon, .decay = 0};
}

/// The presets of Keras: name -> function, used by the configuration.
inline constexpr preset_list<sgd, sgd_momentum, sgd_nesterov, rmsprop, rmsprop_centered, rmsprop_momentum,
                             rmsprop_centered_momentum, adam, adam_amsgrad, adamw, adamw_amsgrad, adadelta, adagrad,
                             adamax, nadam, ftrl, lion, lamb>
    presets{"keras"};
} // namespace gradstep::dialects::keras
