#pragma once
/// The rules of dynamicemb, the embedding tables of NVIDIA's recsys-examples, with dynamicemb's
/// arguments and defaults (OptimizerArgs). A function has the name of the optimizer in EmbOptimType
/// or DynamicEmbOptimType.
///
/// - `learning_rate`, by default 0.01, is a schedule;
/// - `weight_decay` of adam is the regularizer `decoupled{weight_decay}`;
/// - a table of dynamicemb moves only the rows of the batch, as a gs::table with `touch_only`.
///
/// dynamicemb runs on GPUs only. These presets are compared with a loop in float that was written
/// from dynamicemb's source (corelib/dynamicemb/src/optimizer_kernel.cuh, commit 03b58b14), and not
/// with dynamicemb itself.
#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/constant_rate_ftrl.hpp>
#include <gradstep/rules/rowwise_adagrad.hpp>
#include <gradstep/rules/sgd.hpp>

namespace gradstep::dialects::dynamicemb {
/// EXACT_SGD: gradient descent.
///
///     w <- w - lr * g
GRADSTEP_INLINE constexpr gradstep::sgd exact_sgd() { return {}; }

/// The arguments of `adam`.
struct adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &adam_arguments::eps, ranges::non_negative}};
};

/// ADAM: epsilon is outside the root, as in torch.
///
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
///
/// dynamicemb computes the powers by CUDA's __powf, whose errors show where 1 - beta2^t is small. t
/// counts the steps of the tables, not the steps of a row.
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .epsilon_place = epsilon::outside};
}

/// The arguments of `exact_adagrad` and `exact_rowwise_adagrad`.
struct exact_adagrad_arguments {
    double eps = 1e-8, initial_accumulator_value = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"eps", &exact_adagrad_arguments::eps, ranges::non_negative},
                            hyperparameter{"initial_accumulator_value",
                                           &exact_adagrad_arguments::initial_accumulator_value, ranges::non_negative}};
};

/// EXACT_ADAGRAD: epsilon is outside the root.
///
///     n <- n + g^2
///     w <- w - lr * g / (sqrt(n) + eps)
///
/// With eps = 0, dynamicemb gives NaN while a gradient is 0; here the weight stays.
GRADSTEP_INLINE constexpr gradstep::adagrad exact_adagrad(exact_adagrad_arguments with = {}) {
    return {
        .epsilon = with.eps, .initial_accumulator = with.initial_accumulator_value, .epsilon_place = epsilon::outside};
}

/// EXACT_ROWWISE_ADAGRAD: one sum for each row.
///
///     n <- n + mean(g^2)                          over the row
///     w <- w - lr * g / (sqrt(n) + eps)
GRADSTEP_INLINE constexpr gradstep::rowwise_adagrad exact_rowwise_adagrad(exact_adagrad_arguments with = {}) {
    return {.epsilon = with.eps, .initial_accumulator = with.initial_accumulator_value};
}

/// The arguments of `ftrl`.
struct ftrl_arguments {
    double learning_rate_power = -0.5, ftrl_beta = 0, initial_accumulator_value = 0, l1_reg = 0, l2_reg = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"learning_rate_power", &ftrl_arguments::learning_rate_power, ranges::not_positive},
        hyperparameter{"ftrl_beta", &ftrl_arguments::ftrl_beta, ranges::non_negative},
        hyperparameter{"initial_accumulator_value", &ftrl_arguments::initial_accumulator_value, ranges::non_negative},
        hyperparameter{"l1_reg", &ftrl_arguments::l1_reg, ranges::non_negative},
        hyperparameter{"l2_reg", &ftrl_arguments::l2_reg, ranges::non_negative}};
};

/// FTRL: FTRL for a constant rate. l2_reg counts once, as in the paper; ftrl_beta is by default 0,
/// in the paper 1.
///
///     z <- z + g - (n'^p - n^p) / lr * w,    p = -learning_rate_power,    n' = n + g^2
///     w <- |z| <= l1_reg ? 0 : (sgn(z) * l1_reg - z) / ((ftrl_beta + n'^p) / lr + l2_reg)
///
/// A weight without a gradient so far becomes 0 in the first step of its row, as in dynamicemb. The
/// rule leaves such a weight as it is if nothing pulls at it; the preset adds the smallest normal
/// float to l2_reg.
GRADSTEP_INLINE constexpr gradstep::constant_rate_ftrl ftrl(ftrl_arguments with = {}) {
    constexpr double pulls = std::numeric_limits<float>::min();
    return {.l1 = with.l1_reg,
            .l2 = with.l2_reg + pulls,
            .beta = with.ftrl_beta,
            .lr_power = with.learning_rate_power,
            .initial_accumulator = with.initial_accumulator_value};
}

/// The presets of dynamicemb: name -> function, used by the configuration.
inline constexpr preset_list<exact_sgd, adam, exact_adagrad, exact_rowwise_adagrad, ftrl> presets{"dynamicemb"};
} // namespace gradstep::dialects::dynamicemb
