#pragma once
/// The rules of FBGEMM's embedding tables (SplitTableBatchedEmbeddingBagsCodegen), with FBGEMM's
/// arguments and defaults. A function has the name of the optimizer in EmbOptimType.
///
/// - `learning_rate`, by default 0.01, is a schedule;
/// - weight_decay_mode L2 is the regularizer `l2{weight_decay}`, DECOUPLE is
///   `decoupled{weight_decay}`. adam and partial_rowwise_adam always decouple it;
/// - `max_gradient` with gradient_clipping is `clip_value{...}`;
/// - a table of FBGEMM moves only the rows of the batch, as a gs::table with `touch_only`.
///
/// exact_sgd, exact_adagrad, exact_rowwise_adagrad and its variant, and rowwise_rmsprop_ar are
/// compared with fbgemm-gpu-cpu 1.9.0. FBGEMM runs the others on GPUs only: they are compared with
/// a loop in float that was written from FBGEMM's source
/// (fbgemm_gpu/codegen/genscript/optimizers.py), and not with FBGEMM itself.
#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/cowclip_adagrad.hpp>
#include <gradstep/rules/lamb.hpp>
#include <gradstep/rules/lars.hpp>
#include <gradstep/rules/rowwise_adagrad.hpp>
#include <gradstep/rules/rowwise_adam.hpp>
#include <gradstep/rules/rowwise_rmsprop.hpp>
#include <gradstep/rules/sgd.hpp>

namespace gradstep::dialects::fbgemm {
/// EXACT_SGD: gradient descent.
///
///     w <- w - lr * g
GRADSTEP_INLINE constexpr gradstep::sgd exact_sgd() { return {}; }

/// The arguments of `exact_adagrad` and `exact_rowwise_adagrad`.
struct exact_adagrad_arguments {
    double eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"eps", &exact_adagrad_arguments::eps, ranges::non_negative}};
};

/// EXACT_ADAGRAD: epsilon is outside the root, and the sum starts at 0.
///
///     n <- n + g^2
///     w <- w - lr * g / (sqrt(n) + eps)
///
/// With eps = 0, FBGEMM gives NaN while a gradient is 0; here the weight stays.
GRADSTEP_INLINE constexpr gradstep::adagrad exact_adagrad(exact_adagrad_arguments with = {}) {
    return {.epsilon = with.eps, .initial_accumulator = 0, .epsilon_place = epsilon::outside};
}

/// EXACT_ROWWISE_ADAGRAD: one sum for each row.
///
///     n <- n + mean(g^2)                          over the row
///     w <- w - lr / (sqrt(n) + eps) * g
///
/// With the mode L2, FBGEMM decays by weight_decay times the step of the row, which is the same
/// algebra as `l2`. `max_norm` and the counter modes are not available.
GRADSTEP_INLINE constexpr gradstep::rowwise_adagrad exact_rowwise_adagrad(exact_adagrad_arguments with = {}) {
    return {.epsilon = with.eps, .initial_accumulator = 0};
}

/// The arguments of `exact_rowwise_adagrad_cowclip`: the members of CowClipDefinition, and eps.
struct exact_rowwise_adagrad_cowclip_arguments {
    double counter_halflife = -1, weight_norm_coefficient = 0, lower_bound = 0, eps = 1e-8;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"counter_halflife", &exact_rowwise_adagrad_cowclip_arguments::counter_halflife, ranges::finite},
        hyperparameter{"weight_norm_coefficient", &exact_rowwise_adagrad_cowclip_arguments::weight_norm_coefficient,
                       ranges::non_negative},
        hyperparameter{"lower_bound", &exact_rowwise_adagrad_cowclip_arguments::lower_bound, ranges::non_negative},
        hyperparameter{"eps", &exact_rowwise_adagrad_cowclip_arguments::eps, ranges::non_negative}};
};

/// EXACT_ROWWISE_ADAGRAD(weight_decay_mode=COWCLIP): the gradient of a row is limited by the norm
/// of the row times a count of its updates.
///
///     c <- 1 + 2^(-1 / counter_halflife) * c      1 + c if counter_halflife < 0; 1 if it is 0
///     n <- n + mean(g^2)                          over the row
///     r <- min(1, c * max(weight_norm_coefficient * |w|, lower_bound) / |g|)
///     w <- w - lr / (sqrt(n) + eps) * r * g
///
/// FBGEMM's defaults make r = 0, so that no weight moves. FBGEMM counts rows whose gradient is 0
/// too, and gives NaN for them. In a table, `exact` decays the counts of missed steps, as FBGEMM
/// does.
GRADSTEP_INLINE constexpr gradstep::cowclip_adagrad
exact_rowwise_adagrad_cowclip(exact_rowwise_adagrad_cowclip_arguments with = {}) {
    return {.clip_ratio = with.weight_norm_coefficient,
            .lower_bound = with.lower_bound,
            .count_decay = with.counter_halflife < 0    ? 1
                           : with.counter_halflife == 0 ? 0
                                                        : std::exp2(-1 / with.counter_halflife),
            .epsilon = with.eps,
            .initial_accumulator = 0};
}

/// The arguments of `rowwise_rmsprop_ar`.
struct rowwise_rmsprop_ar_arguments {
    double ema_beta = 0.99, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"ema_beta", &rowwise_rmsprop_ar_arguments::ema_beta, ranges::fraction},
                            hyperparameter{"eps", &rowwise_rmsprop_ar_arguments::eps, ranges::non_negative}};
};

/// ROWWISE_RMSPROP_AR: one average of squares for each row.
///
///     v <- ema_beta * v + (1 - ema_beta) * mean(g^2)    over the row
///     w <- w - lr / (sqrt(v) + eps) * g
///
/// `ar_alpha`, by default 0, is the regularizer `decoupled{ar_alpha}`. FBGEMM shrinks a row that
/// missed steps by the rate of today, and at most to min_shrinkage; gradstep uses the rate of each
/// step. FBGEMM decays v in a step whose gradient is 0, and gradstep does not.
GRADSTEP_INLINE constexpr gradstep::rowwise_rmsprop rowwise_rmsprop_ar(rowwise_rmsprop_ar_arguments with = {}) {
    return {.beta = with.ema_beta, .epsilon = with.eps};
}

/// The arguments of `adam` and `partial_rowwise_adam`.
struct adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &adam_arguments::eps, ranges::non_negative}};
};

/// ADAM, on GPUs: epsilon is outside the root, as in torch.
///
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
///
/// `weight_decay` is `decoupled{weight_decay}`. t counts the steps of the table. FBGEMM's
/// use_rowwise_bias_correction, which counts the steps of each row, is not available.
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .epsilon_place = epsilon::outside};
}

/// PARTIAL_ROWWISE_ADAM, on GPUs: adam with one second moment for each row.
///
///     v <- beta2 * v + (1 - beta2) * mean(g^2)    over the row
GRADSTEP_INLINE constexpr gradstep::rowwise_adam partial_rowwise_adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps};
}

/// The arguments of `lamb`.
struct lamb_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &lamb_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &lamb_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &lamb_arguments::eps, ranges::non_negative},
                            hyperparameter{"weight_decay", &lamb_arguments::weight_decay, ranges::non_negative}};
};

/// LAMB, on GPUs: it uses the norms of a row, and the decay is part of the update.
///
/// If the norm of the update is 0, FBGEMM's row becomes NaN; if the norm of the row is 0, the row
/// never moves. Here the ratio of the norms is 1 in both cases.
GRADSTEP_INLINE constexpr gradstep::lamb lamb(lamb_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .decay = with.weight_decay};
}

/// The arguments of `lars_sgd`.
struct lars_sgd_arguments {
    double eta = 0.001, momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"eta", &lars_sgd_arguments::eta, ranges::positive},
                            hyperparameter{"momentum", &lars_sgd_arguments::momentum, ranges::fraction}};
};

/// LARS_SGD without weight decay, on GPUs: it uses the norms of a row.
///
///     m <- momentum * m + lr * eta * |w| / |g| * g
///     w <- w - m
///
/// FBGEMM adds weight_decay * |w| to the norm of the gradient, while `l2` adds the decay to the
/// gradient before its norm. If a norm is 0, FBGEMM gives NaN or never moves the row; here the
/// ratio is 1.
GRADSTEP_INLINE constexpr gradstep::lars lars_sgd(lars_sgd_arguments with = {}) {
    return {.mu = with.momentum, .trust = with.eta, .epsilon = 0};
}

/// The presets of FBGEMM: name -> function, used by the configuration.
inline constexpr preset_list<exact_sgd, exact_adagrad, exact_rowwise_adagrad, exact_rowwise_adagrad_cowclip,
                             rowwise_rmsprop_ar, adam, partial_rowwise_adam, lamb, lars_sgd>
    presets{"fbgemm"};
} // namespace gradstep::dialects::fbgemm
