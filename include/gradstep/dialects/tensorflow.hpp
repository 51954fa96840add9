#pragma once
/// The training operations of TensorFlow (ResourceApply...), with the arguments and defaults of the
/// tf.compat.v1.train optimizers that use them; compared with the operations of TensorFlow 2.21.
/// For tf.keras see dialects/keras.hpp.
///
/// `learning_rate` is a schedule. ProximalGradientDescentOptimizer is `gradient_descent()` with the
/// regularizer `proximal{elastic_net{l1, l2}}`. AdagradDA, AddSign and PowerSign are missing.
///
/// TensorFlow flushes subnormal numbers to 0. Its AdamOptimizer keeps the powers of beta as running
/// products in float32, also for double variables. The operations use the values they are given;
/// here the powers are exact.
///
/// `make_updater` checks the numbers under the rule's names, after the conversion here: an l2 of
/// ftrl appears doubled. `check_policy(arguments)` checks the arguments under TensorFlow's names,
/// and rejects what the optimizers reject, even if the operations accept it.

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/keras.hpp>
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
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/momentum_rmsprop.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/nesterov_adam.hpp>
#include <gradstep/rules/proximal_adagrad.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/sgd.hpp>

namespace gradstep::dialects::tensorflow {
/// GradientDescentOptimizer: gradient descent.
///
///     w <- w - lr * g
GRADSTEP_INLINE constexpr gradstep::sgd gradient_descent() { return {}; }

/// The arguments of `momentum` and its variants. TensorFlow has no default of momentum.
struct momentum_arguments {
    double momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &momentum_arguments::momentum, ranges::fraction}};
};

/// MomentumOptimizer: the rate is outside the buffer.
///
///     m <- momentum * m + g
///     w <- w - lr * m
GRADSTEP_INLINE constexpr gradstep::momentum momentum(momentum_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::outside};
}

/// MomentumOptimizer(use_nesterov=True): Nesterov's momentum, with the rate outside the buffer.
///
///     m <- momentum * m + g
///     w <- w - lr * (g + momentum * m)
GRADSTEP_INLINE constexpr gradstep::nesterov momentum_nesterov(momentum_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::outside};
}

/// ResourceApplyKerasMomentum: the rate is inside the buffer (slot m is TensorFlow's accum).
///
///     v <- momentum * v - lr * g
///     w <- w + v
GRADSTEP_INLINE constexpr gradstep::momentum keras_momentum(momentum_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::inside};
}

/// ResourceApplyKerasMomentum(use_nesterov=True): Nesterov's momentum, with the rate inside the
/// buffer.
///
///     v <- momentum * v - lr * g
///     w <- w + momentum * v - lr * g
GRADSTEP_INLINE constexpr gradstep::nesterov keras_momentum_nesterov(momentum_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::inside};
}

/// The arguments of `adagrad`. AdagradOptimizer rejects an initial_accumulator_value of 0.
struct adagrad_arguments {
    double initial_accumulator_value = 0.1;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"initial_accumulator_value", &adagrad_arguments::initial_accumulator_value, ranges::positive}};
};

/// AdagradOptimizer: without epsilon.
///
///     n <- n + g^2
///     w <- w - lr * g / sqrt(n)
///
/// The operation accepts an initial_accumulator_value of 0, and so does this function. While n is
/// 0, a weight without gradient does not change (the operation has 0 * infinity), but a gradient
/// whose square underflows moves it without bound.
GRADSTEP_INLINE constexpr gradstep::adagrad adagrad(adagrad_arguments with = {}) {
    return {.epsilon = 0, .initial_accumulator = with.initial_accumulator_value};
}

/// The arguments of `adagrad_v2`. The defaults are from tf.keras.optimizers.legacy.Adagrad, which
/// uses this operation.
struct adagrad_v2_arguments {
    double initial_accumulator_value = 0.1, epsilon = 1e-7;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"initial_accumulator_value",
                                           &adagrad_v2_arguments::initial_accumulator_value, ranges::non_negative},
                            hyperparameter{"epsilon", &adagrad_v2_arguments::epsilon, ranges::non_negative}};
};

/// ResourceApplyAdagradV2: Adagrad with epsilon outside the root.
///
///     n <- n + g^2
///     w <- w - lr * g / (sqrt(n) + epsilon)
///
/// Keras 3 has epsilon inside the root.
GRADSTEP_INLINE constexpr gradstep::adagrad adagrad_v2(adagrad_v2_arguments with = {}) {
    return {.epsilon = with.epsilon,
            .initial_accumulator = with.initial_accumulator_value,
            .epsilon_place = epsilon::outside};
}

struct adadelta_arguments {
    double rho = 0.95, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &adadelta_arguments::rho, ranges::fraction},
                            hyperparameter{"epsilon", &adadelta_arguments::epsilon, ranges::non_negative}};
};

/// AdadeltaOptimizer: the same as in other frameworks. The rate multiplies the step; its default is
/// 0.001.
GRADSTEP_INLINE constexpr gradstep::adadelta adadelta(adadelta_arguments with = {}) {
    return {.rho = with.rho, .epsilon = with.epsilon};
}

struct rmsprop_arguments {
    double decay = 0.9, epsilon = 1e-10;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"decay", &rmsprop_arguments::decay, ranges::fraction},
                            hyperparameter{"epsilon", &rmsprop_arguments::epsilon, ranges::non_negative}};
};

/// RMSPropOptimizer: epsilon is inside the root, and n starts at 1.
///
///     n <- decay * n + (1 - decay) * g^2
///     w <- w - lr * g / sqrt(n + epsilon)
///
/// Its slot for the momentum, which is 0, is left out.
GRADSTEP_INLINE constexpr gradstep::rmsprop rmsprop(rmsprop_arguments with = {}) {
    return {.rho = with.decay, .epsilon = with.epsilon, .epsilon_place = epsilon::inside, .initial_accumulator = 1};
}

/// RMSPropOptimizer(centered=True): the root is sqrt(n - a^2 + epsilon), with
/// a <- decay * a + (1 - decay) * g.
///
/// If rounding makes n - a^2 negative, it is 0 here. TensorFlow gives NaN unless epsilon is large
/// enough.
GRADSTEP_INLINE constexpr gradstep::centered_rmsprop rmsprop_centered(rmsprop_arguments with = {}) {
    return {.rho = with.decay, .epsilon = with.epsilon, .epsilon_place = epsilon::inside, .initial_accumulator = 1};
}

/// The arguments of RMSPropOptimizer with momentum. TensorFlow's default of momentum is 0, which is
/// rmsprop().
struct rmsprop_momentum_arguments {
    double decay = 0.9, momentum = 0.9, epsilon = 1e-10;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"decay", &rmsprop_momentum_arguments::decay, ranges::fraction},
                            hyperparameter{"momentum", &rmsprop_momentum_arguments::momentum, ranges::fraction},
                            hyperparameter{"epsilon", &rmsprop_momentum_arguments::epsilon, ranges::non_negative}};
};

/// RMSPropOptimizer(momentum): the rate is inside the buffer.
///
///     b <- momentum * b + lr * g / sqrt(n + epsilon)
///     w <- w - b
GRADSTEP_INLINE constexpr gradstep::momentum_rmsprop rmsprop_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = with.decay,
            .epsilon = with.epsilon,
            .mu = with.momentum,
            .epsilon_place = epsilon::inside,
            .initial_accumulator = 1,
            .rate_place = learning_rate::inside};
}

/// RMSPropOptimizer(momentum, centered=True): it has the root of rmsprop_centered and the buffer of
/// rmsprop_momentum.
GRADSTEP_INLINE constexpr gradstep::centered_momentum_rmsprop
rmsprop_centered_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = with.decay,
            .epsilon = with.epsilon,
            .mu = with.momentum,
            .epsilon_place = epsilon::inside,
            .initial_accumulator = 1,
            .rate_place = learning_rate::inside};
}

struct adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &adam_arguments::epsilon, ranges::non_negative}};
};

/// AdamOptimizer: with the paper's epsilon-hat.
///
///     w <- w - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
///
/// epsilon-hat is larger than torch's epsilon by 1 / sqrt(1 - beta2^t), 32 times at the first step.
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::hat};
}

/// ResourceApplyAdam(use_nesterov=True): both terms have the bias correction of this step.
///
///     w <- w - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * (beta1 * m + (1 - beta1) * g) / (sqrt(v) + epsilon)
GRADSTEP_INLINE constexpr gradstep::nesterov_adam adam_nesterov(adam_arguments with = {}) {
    return {.beta1 = with.beta1,
            .beta2 = with.beta2,
            .epsilon = with.epsilon,
            .epsilon_place = epsilon::hat,
            .momentum_bias = momentum_bias::this_step};
}

/// The arguments of `adam_amsgrad` and `ada_max`. The defaults are from
/// tf.keras.optimizers.legacy.Adam, which uses this operation.
struct adam_amsgrad_arguments {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-7;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_amsgrad_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_amsgrad_arguments::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &adam_amsgrad_arguments::epsilon, ranges::non_negative}};
};

/// ResourceApplyAdamWithAmsgrad: the root contains v_max instead of v, where v_max <- max(v_max,
/// v).
GRADSTEP_INLINE constexpr gradstep::amsgrad adam_amsgrad(adam_amsgrad_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::hat};
}

/// ResourceApplyAdaMax: epsilon is outside the maximum.
///
///     u <- max(beta2 * u, |g|)
///     w <- w - lr / (1 - beta1^t) * m / (u + epsilon)
GRADSTEP_INLINE constexpr gradstep::adamax ada_max(adam_amsgrad_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::outside};
}

/// The arguments of `ftrl`, the same as in Keras, which uses this operation.
using ftrl_arguments = keras::ftrl_arguments;

/// FtrlOptimizer (both versions of the operation): FTRL for a constant rate. l2 counts twice; beta
/// as in the paper.
///
///     z <- z + g + 2 * l2_shrinkage * w - (n'^p - n^p) / lr * w,    p = -learning_rate_power,    n' = n + g^2
///     w <- |z| <= l1 ? 0 : (sgn(z) * l1 - z) / ((beta + n'^p) / lr + 2 * l2)
///
/// Under a schedule it is not FTRL-Proximal. Use gradstep::ftrl for that. With
/// multiply_linear_by_lr, an option of the operation, TensorFlow's slot contains lr * z.
GRADSTEP_INLINE constexpr gradstep::constant_rate_ftrl ftrl(ftrl_arguments with = {}) { return keras::ftrl(with); }

/// The arguments of `proximal_adagrad`. ProximalAdagradOptimizer rejects an
/// initial_accumulator_value of 0.
struct proximal_adagrad_arguments {
    double initial_accumulator_value = 0.1, l1_regularization_strength = 0, l2_regularization_strength = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"initial_accumulator_value", &proximal_adagrad_arguments::initial_accumulator_value,
                       ranges::positive},
        hyperparameter{"l1_regularization_strength", &proximal_adagrad_arguments::l1_regularization_strength,
                       ranges::non_negative},
        hyperparameter{"l2_regularization_strength", &proximal_adagrad_arguments::l2_regularization_strength,
                       ranges::non_negative}};
};

/// ProximalAdagradOptimizer: Adagrad with l1 and l2 as a proximal step.
///
///     n <- n + g^2,    s = sqrt(n)
///     w <- soft(w - lr / s * g, lr / s * l1) / (1 + lr / s * l2)
///
/// While n is 0, the weight does not change here. TensorFlow computes infinity * 0.
GRADSTEP_INLINE constexpr gradstep::proximal_adagrad proximal_adagrad(proximal_adagrad_arguments with = {}) {
    return {.l1 = with.l1_regularization_strength,
            .l2 = with.l2_regularization_strength,
            .initial_accumulator = with.initial_accumulator_value};
}

/// The presets of TensorFlow: name -> function, used by the configuration.
inline constexpr preset_list<gradient_descent, momentum, momentum_nesterov, keras_momentum, keras_momentum_nesterov,
                             adagrad, adagrad_v2, adadelta, rmsprop, rmsprop_centered, rmsprop_momentum,
                             rmsprop_centered_momentum, adam, adam_nesterov, adam_amsgrad, ada_max, ftrl,
                             proximal_adagrad>
    presets{"tensorflow"};
} // namespace gradstep::dialects::tensorflow
