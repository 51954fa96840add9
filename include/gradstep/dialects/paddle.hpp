#pragma once
/// The rules of PaddlePaddle (paddle.optimizer, and two operations without a class), with Paddle's
/// arguments and defaults; compared with paddlepaddle 3.3.1 on the CPU.
///
/// Some of Paddle's arguments are other policies here:
///
/// - `learning_rate` is a schedule;
/// - `weight_decay` as a number or L2Decay is the regularizer `l2{...}`, L1Decay is `l1{...}`, and
///   AdamW's is `decoupled{...}`;
/// - `grad_clip` is `clip_value{...}`, or `clip_scale(norm, limit)` as gradient_scale.
///
/// Most operations of Paddle convert their numbers to float, even in a float64 run: rho = 0.95
/// becomes 0.949999988. The functions here round in the same way, so that float64 results agree.
///
/// `make_updater` checks the numbers under the rule's names, after the conversion here: as floats,
/// and an l1 or l2 of ftrl as the operation changes it. `check_policy(arguments)` checks the
/// arguments under Paddle's names.

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
#include <gradstep/rules/decayed_adagrad.hpp>
#include <gradstep/rules/lamb.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/momentum_rmsprop.hpp>
#include <gradstep/rules/nadam.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/radam.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/rprop.hpp>
#include <gradstep/rules/sgd.hpp>

namespace gradstep::dialects::paddle::detail {
// A number after Paddle's conversion to a C++ float.
GRADSTEP_INLINE constexpr double attribute(double x) { return static_cast<double>(static_cast<float>(x)); }
} // namespace gradstep::dialects::paddle::detail

namespace gradstep::dialects::paddle {
/// SGD(): gradient descent.
///
///     w <- w - lr * g
GRADSTEP_INLINE constexpr gradstep::sgd sgd() { return {}; }

struct momentum_arguments {
    double momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &momentum_arguments::momentum, ranges::fraction}};
};

/// Momentum(): the rate is outside the buffer.
///
///     m <- momentum * m + g
///     w <- w - lr * m
GRADSTEP_INLINE constexpr gradstep::momentum momentum(momentum_arguments with = {}) {
    return {.mu = detail::attribute(with.momentum), .rate_place = learning_rate::outside};
}

/// Momentum(use_nesterov=True): Nesterov's momentum, with the rate outside the buffer.
///
///     m <- momentum * m + g
///     w <- w - lr * (g + momentum * m)
GRADSTEP_INLINE constexpr gradstep::nesterov momentum_nesterov(momentum_arguments with = {}) {
    return {.mu = detail::attribute(with.momentum), .rate_place = learning_rate::outside};
}

struct adagrad_arguments {
    double epsilon = 1e-6, initial_accumulator_value = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"epsilon", &adagrad_arguments::epsilon, ranges::non_negative},
                            hyperparameter{"initial_accumulator_value", &adagrad_arguments::initial_accumulator_value,
                                           ranges::non_negative}};
};

/// Adagrad(): epsilon is outside the root.
///
///     n <- n + g^2
///     w <- w - lr * g / (sqrt(n) + epsilon)
GRADSTEP_INLINE constexpr gradstep::adagrad adagrad(adagrad_arguments with = {}) {
    return {.epsilon = detail::attribute(with.epsilon),
            .initial_accumulator = detail::attribute(with.initial_accumulator_value),
            .epsilon_place = epsilon::outside};
}

struct decayed_adagrad_arguments {
    double decay = 0.95, epsilon = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"decay", &decayed_adagrad_arguments::decay, ranges::fraction},
                            hyperparameter{"epsilon", &decayed_adagrad_arguments::epsilon, ranges::non_negative}};
};

/// The operation decayed_adagrad, for float32: Adagrad with a moving average instead of the sum.
///
///     n <- decay * n + (1 - decay) * g^2
///     w <- w - lr * g / (sqrt(n) + epsilon)
GRADSTEP_INLINE constexpr gradstep::decayed_adagrad decayed_adagrad(decayed_adagrad_arguments with = {}) {
    return {.rho = detail::attribute(with.decay), .epsilon = detail::attribute(with.epsilon)};
}

struct adadelta_arguments {
    double epsilon = 1e-6, rho = 0.95;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"epsilon", &adadelta_arguments::epsilon, ranges::non_negative},
                            hyperparameter{"rho", &adadelta_arguments::rho, ranges::fraction}};
};

/// Adadelta(): the same as in other frameworks. The rate multiplies the step; its default is 0.001,
/// in torch 1.
GRADSTEP_INLINE constexpr gradstep::adadelta adadelta(adadelta_arguments with = {}) {
    return {.rho = detail::attribute(with.rho), .epsilon = detail::attribute(with.epsilon)};
}

struct rmsprop_arguments {
    double rho = 0.95, epsilon = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &rmsprop_arguments::rho, ranges::fraction},
                            hyperparameter{"epsilon", &rmsprop_arguments::epsilon, ranges::non_negative}};
};

/// RMSProp(): epsilon is inside the root.
///
///     n <- rho * n + (1 - rho) * g^2
///     w <- w - lr * g / sqrt(n + epsilon)
///
/// Paddle's slots for the momentum and the mean gradient are left out if they have no effect.
GRADSTEP_INLINE constexpr gradstep::rmsprop rmsprop(rmsprop_arguments with = {}) {
    return {.rho = detail::attribute(with.rho),
            .epsilon = detail::attribute(with.epsilon),
            .epsilon_place = epsilon::inside};
}

/// RMSProp(centered=True): the root is sqrt(n - a^2 + epsilon), with a <- rho * a + (1 - rho) * g.
///
/// If rounding makes n - a^2 negative, it is 0 here. Paddle gives NaN unless epsilon is large
/// enough.
GRADSTEP_INLINE constexpr gradstep::centered_rmsprop rmsprop_centered(rmsprop_arguments with = {}) {
    return {.rho = detail::attribute(with.rho),
            .epsilon = detail::attribute(with.epsilon),
            .epsilon_place = epsilon::inside};
}

/// The arguments of RMSProp with momentum. Paddle's default of momentum is 0, which is rmsprop().
struct rmsprop_momentum_arguments {
    double rho = 0.95, epsilon = 1e-6, momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &rmsprop_momentum_arguments::rho, ranges::fraction},
                            hyperparameter{"epsilon", &rmsprop_momentum_arguments::epsilon, ranges::non_negative},
                            hyperparameter{"momentum", &rmsprop_momentum_arguments::momentum, ranges::fraction}};
};

/// RMSProp(momentum): the rate is inside the buffer.
///
///     b <- momentum * b + lr * g / sqrt(n + epsilon)
///     w <- w - b
GRADSTEP_INLINE constexpr gradstep::momentum_rmsprop rmsprop_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = detail::attribute(with.rho),
            .epsilon = detail::attribute(with.epsilon),
            .mu = detail::attribute(with.momentum),
            .epsilon_place = epsilon::inside,
            .rate_place = learning_rate::inside};
}

/// RMSProp(momentum, centered=True): it has the root of rmsprop_centered and the buffer of
/// rmsprop_momentum.
GRADSTEP_INLINE constexpr gradstep::centered_momentum_rmsprop
rmsprop_centered_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = detail::attribute(with.rho),
            .epsilon = detail::attribute(with.epsilon),
            .mu = detail::attribute(with.momentum),
            .epsilon_place = epsilon::inside,
            .rate_place = learning_rate::inside};
}

struct adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &adam_arguments::epsilon, ranges::non_negative}};
};

/// Adam(): epsilon is outside the root, as in torch.
///
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// Paddle multiplies epsilon by sqrt(1 - beta2^t) instead of dividing v. The result is the same
/// except for rounding.
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::outside};
}

/// Adam(amsgrad=True): the root contains v_max instead of v, where v_max <- max(v_max, v).
GRADSTEP_INLINE constexpr gradstep::amsgrad adam_amsgrad(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::outside};
}

/// AdamW(): the same rule as Adam(). Add the regularizer `decoupled{0.01}`, Paddle's default of
/// weight_decay (the operation rounds it to float).
GRADSTEP_INLINE constexpr gradstep::adam adamw(adam_arguments with = {}) { return adam(with); }

/// AdamW(amsgrad=True): the same rule as Adam(amsgrad=True). Add the regularizer `decoupled`, as in
/// adamw.
GRADSTEP_INLINE constexpr gradstep::amsgrad adamw_amsgrad(adam_arguments with = {}) { return adam_amsgrad(with); }

/// Adamax(): epsilon is added to the stored u.
///
///     u <- max(beta2 * u + epsilon, |g|)
///     w <- w - lr / (1 - beta1^t) * m / u
///
/// Without gradients, u grows to epsilon / (1 - beta2), 1000 * epsilon by default. In float64, the
/// operation has beta1 as a float and Python has its power as a double: Paddle's step has a
/// relative error of 2e-7.
GRADSTEP_INLINE constexpr gradstep::adamax adamax(adam_arguments with = {}) {
    return {.beta1 = detail::attribute(with.beta1),
            .beta2 = detail::attribute(with.beta2),
            .epsilon = detail::attribute(with.epsilon),
            .epsilon_place = epsilon::accumulated};
}

struct nadam_arguments {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum_decay = 0.004;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &nadam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &nadam_arguments::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &nadam_arguments::epsilon, ranges::non_negative},
                            hyperparameter{"momentum_decay", &nadam_arguments::momentum_decay, ranges::non_negative}};
};

/// NAdam(): Dozat's form as in torch, with mu_t = beta1 * (1 - 0.5 * 0.96^(momentum_decay * t)).
///
/// Paddle computes this power from a running product 0.96^t, which falls below the smallest number
/// of its type. From then on Paddle's mu_t is constant; here it is not.
GRADSTEP_INLINE constexpr gradstep::nadam nadam(nadam_arguments with = {}) {
    return {.beta1 = detail::attribute(with.beta1),
            .beta2 = detail::attribute(with.beta2),
            .epsilon = detail::attribute(with.epsilon),
            .momentum_decay = detail::attribute(with.momentum_decay),
            .epsilon_place = epsilon::outside};
}

/// RAdam(): the root uses the paper's epsilon-hat, sqrt(1 - beta2^t) / (sqrt(v) + epsilon), as in
/// torch.
GRADSTEP_INLINE constexpr gradstep::radam radam(adam_arguments with = {}) {
    return {.beta1 = detail::attribute(with.beta1),
            .beta2 = detail::attribute(with.beta2),
            .epsilon = detail::attribute(with.epsilon),
            .epsilon_place = epsilon::hat};
}

struct lamb_arguments {
    double lamb_weight_decay = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"lamb_weight_decay", &lamb_arguments::lamb_weight_decay, ranges::non_negative},
        hyperparameter{"beta1", &lamb_arguments::beta1, ranges::fraction},
        hyperparameter{"beta2", &lamb_arguments::beta2, ranges::fraction},
        hyperparameter{"epsilon", &lamb_arguments::epsilon, ranges::non_negative}};
};

/// Lamb(): it uses the ratio of norms of the whole parameter. The decay is part of the update. The
/// ratio is 1 if a norm is 0.
///
/// In float64 the powers of beta have the same error as in adamax. With lamb_weight_decay = 0,
/// Paddle uses the ratio only with always_adapt=True, and is otherwise adam({.epsilon = 1e-6}).
/// Here the ratio is always used.
GRADSTEP_INLINE constexpr gradstep::lamb lamb(lamb_arguments with = {}) {
    return {.beta1 = detail::attribute(with.beta1),
            .beta2 = detail::attribute(with.beta2),
            .epsilon = detail::attribute(with.epsilon),
            .decay = detail::attribute(with.lamb_weight_decay)};
}

struct ftrl_arguments {
    double l1 = 0, l2 = 0, lr_power = -0.5;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"l1", &ftrl_arguments::l1, ranges::non_negative},
                            hyperparameter{"l2", &ftrl_arguments::l2, ranges::non_negative},
                            hyperparameter{"lr_power", &ftrl_arguments::lr_power, ranges::not_positive}};
};

/// The operation ftrl, for float32: FTRL for a constant rate, without beta. l2 counts twice, and l1
/// and l2 increase by 1e-10.
///
///     z <- z + g - (n'^p - n^p) / lr * w,    p = -lr_power,    n' = n + g^2,    n starts at 0
///     w <- |z| <= l1 ? 0 : (sgn(z) * l1 - z) / (n'^p / lr + 2 * l2)
GRADSTEP_INLINE constexpr gradstep::constant_rate_ftrl ftrl(ftrl_arguments with = {}) {
    constexpr double added = 1e-10;
    return {.l1 = detail::attribute(with.l1) + added,
            .l2 = 2 * (detail::attribute(with.l2) + added),
            .beta = 0,
            .lr_power = detail::attribute(with.lr_power)};
}

struct rprop_arguments {
    double initial_step = 0.001, learning_rate_min = 1e-5, learning_rate_max = 50, eta_minus = 0.5, eta_plus = 1.2;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"initial_step", &rprop_arguments::initial_step, ranges::positive},
                            hyperparameter{"learning_rate_min", &rprop_arguments::learning_rate_min, ranges::positive},
                            hyperparameter{"learning_rate_max", &rprop_arguments::learning_rate_max, ranges::positive},
                            hyperparameter{"eta_minus", &rprop_arguments::eta_minus, ranges::positive_fraction},
                            hyperparameter{"eta_plus", &rprop_arguments::eta_plus, ranges::at_least_one}};
};
/// Rprop(): Paddle's `learning_rate` is only the first step size, here `initial_step`; use the
/// schedule `constant{1}`. learning_rate_range and etas are pairs. Nothing is rounded to float.
///
///     eta <- clip(eta * (eta_plus or eta_minus), learning_rate_min, learning_rate_max)
///     w <- w - eta * sgn(g)
GRADSTEP_INLINE constexpr gradstep::rprop rprop(rprop_arguments with = {}) {
    return {.initial_step = with.initial_step,
            .shrink = with.eta_minus,
            .grow = with.eta_plus,
            .smallest_step = with.learning_rate_min,
            .largest_step = with.learning_rate_max};
}

/// The presets of Paddle: name -> function, used by the configuration.
inline constexpr preset_list<sgd, momentum, momentum_nesterov, adagrad, decayed_adagrad, adadelta, rmsprop,
                             rmsprop_centered, rmsprop_momentum, rmsprop_centered_momentum, adam, adam_amsgrad, adamw,
                             adamw_amsgrad, adamax, nadam, radam, lamb, ftrl, rprop>
    presets{"paddle"};
} // namespace gradstep::dialects::paddle
