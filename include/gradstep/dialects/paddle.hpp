#pragma once
/// The rules of PaddlePaddle (paddle.optimizer, and two operations without a class), with its arguments and their
/// defaults; compared with paddlepaddle 3.3.1 on the CPU.
///
/// `learning_rate` is a schedule. `weight_decay` as a number or L2Decay is the regularizer `l2{...}`, L1Decay is
/// `l1{...}`, that of AdamW is `decoupled{...}`. `grad_clip` is `clip_value{...}` or `clip_scale(norm, limit)` as
/// gradient_scale.
///
/// Of Paddle itself: most operations take their numbers as float, in a float64 run too, where rho = 0.95 is
/// 0.949999988. The functions here round as the operation does, so that float64 results agree.
///
/// The rules check their numbers in `make_updater`, by their own names, and after the conversion here: as floats, an l1
/// or l2 of ftrl with what the operation makes of it. `check_policy(arguments)` checks what is given, by Paddle's
/// names.

#include <gradstep/core/compiler.hpp>
#include <gradstep/core/epsilon.hpp>
#include <gradstep/dialects/preset.hpp>
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
#include <gradstep/rules/sgd.hpp>

namespace gradstep::dialects::paddle {

namespace detail {

// A number as an operation of Paddle has it that takes a C++ float.
GRADSTEP_INLINE constexpr double attribute(double x) { return static_cast<double>(static_cast<float>(x)); }

} // namespace detail

/// SGD().
///
///     w <- w - lr * g
GRADSTEP_INLINE constexpr gradstep::sgd sgd() { return {}; }

struct momentum_arguments {
    double momentum = 0.9;
    static constexpr auto members = member_list{member{"momentum", &momentum_arguments::momentum, ranges::fraction}};
};

/// Momentum(): the rate is outside the buffer.
///
///     m <- momentum * m + g
///     w <- w - lr * m
GRADSTEP_INLINE constexpr gradstep::momentum momentum(momentum_arguments with = {}) {
    return {.mu = detail::attribute(with.momentum), .rate_place = learning_rate::outside};
}

/// Momentum(use_nesterov=True).
///
///     m <- momentum * m + g
///     w <- w - lr * (g + momentum * m)
GRADSTEP_INLINE constexpr gradstep::nesterov momentum_nesterov(momentum_arguments with = {}) {
    return {.mu = detail::attribute(with.momentum), .rate_place = learning_rate::outside};
}

struct adagrad_arguments {
    double epsilon = 1e-6, initial_accumulator_value = 0;
    static constexpr auto members = member_list{
        member{"epsilon", &adagrad_arguments::epsilon, ranges::non_negative},
        member{"initial_accumulator_value", &adagrad_arguments::initial_accumulator_value, ranges::non_negative}};
};

/// Adagrad().
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
    static constexpr auto members =
        member_list{member{"decay", &decayed_adagrad_arguments::decay, ranges::fraction},
                    member{"epsilon", &decayed_adagrad_arguments::epsilon, ranges::non_negative}};
};

/// decayed_adagrad, an operation for float32.
///
///     n <- decay * n + (1 - decay) * g^2
///     w <- w - lr * g / (sqrt(n) + epsilon)
GRADSTEP_INLINE constexpr gradstep::decayed_adagrad decayed_adagrad(decayed_adagrad_arguments with = {}) {
    return {.rho = detail::attribute(with.decay), .epsilon = detail::attribute(with.epsilon)};
}

struct adadelta_arguments {
    double epsilon = 1e-6, rho = 0.95;
    static constexpr auto members = member_list{member{"epsilon", &adadelta_arguments::epsilon, ranges::non_negative},
                                                member{"rho", &adadelta_arguments::rho, ranges::fraction}};
};

/// Adadelta(): as everywhere; the rate multiplies the step, 0.001 by default where torch has 1.
GRADSTEP_INLINE constexpr gradstep::adadelta adadelta(adadelta_arguments with = {}) {
    return {.rho = detail::attribute(with.rho), .epsilon = detail::attribute(with.epsilon)};
}

struct rmsprop_arguments {
    double rho = 0.95, epsilon = 1e-6;
    static constexpr auto members = member_list{member{"rho", &rmsprop_arguments::rho, ranges::fraction},
                                                member{"epsilon", &rmsprop_arguments::epsilon, ranges::non_negative}};
};

/// RMSProp().
///
///     n <- rho * n + (1 - rho) * g^2
///     w <- w - lr * g / sqrt(n + epsilon)
///
/// Paddle's slots for the momentum and the mean gradient are not kept where they do nothing.
GRADSTEP_INLINE constexpr gradstep::rmsprop rmsprop(rmsprop_arguments with = {}) {
    return {.rho = detail::attribute(with.rho),
            .epsilon = detail::attribute(with.epsilon),
            .epsilon_place = epsilon::inside};
}

/// RMSProp(centered=True): sqrt(n - a^2 + epsilon) for the root, with a <- rho * a + (1 - rho) * g.
///
/// Where rounding makes n - a^2 negative it is 0 here; Paddle has a NaN if epsilon does not cover it.
GRADSTEP_INLINE constexpr gradstep::centered_rmsprop rmsprop_centered(rmsprop_arguments with = {}) {
    return {.rho = detail::attribute(with.rho),
            .epsilon = detail::attribute(with.epsilon),
            .epsilon_place = epsilon::inside};
}

/// Paddle's own momentum is 0, which is rmsprop().
struct rmsprop_momentum_arguments {
    double rho = 0.95, epsilon = 1e-6, momentum = 0.9;
    static constexpr auto members =
        member_list{member{"rho", &rmsprop_momentum_arguments::rho, ranges::fraction},
                    member{"epsilon", &rmsprop_momentum_arguments::epsilon, ranges::non_negative},
                    member{"momentum", &rmsprop_momentum_arguments::momentum, ranges::fraction}};
};

/// RMSProp(momentum): the rate is in the buffer.
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

/// RMSProp(momentum, centered=True): the root of rmsprop_centered, the buffer of rmsprop_momentum.
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
    static constexpr auto members = member_list{member{"beta1", &adam_arguments::beta1, ranges::fraction},
                                                member{"beta2", &adam_arguments::beta2, ranges::fraction},
                                                member{"epsilon", &adam_arguments::epsilon, ranges::non_negative}};
};

/// Adam(): as in torch.
///
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// Paddle multiplies epsilon by sqrt(1 - beta2^t) in place of dividing v: the same but for rounding.
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::outside};
}

/// Adam(amsgrad=True): v_max for v in the root of `adam`, with v_max <- max(v_max, v).
GRADSTEP_INLINE constexpr gradstep::amsgrad adam_amsgrad(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::outside};
}

/// AdamW(): Adam(). Its weight_decay is the regularizer `decoupled{0.01}`, Paddle's default (of which the operation
/// has the float).
GRADSTEP_INLINE constexpr gradstep::adam adamw(adam_arguments with = {}) { return adam(with); }

/// AdamW(amsgrad=True), with `decoupled` as in adamw.
GRADSTEP_INLINE constexpr gradstep::amsgrad adamw_amsgrad(adam_arguments with = {}) { return adam_amsgrad(with); }

/// Adamax(): epsilon is added to what u keeps.
///
///     u <- max(beta2 * u + epsilon, |g|)
///     w <- w - lr / (1 - beta1^t) * m / u
///
/// Without gradients u grows to epsilon / (1 - beta2), 1000 * epsilon by default. In float64 the operation has beta1 as
/// a float and Python its power as a double: a step of theirs is off by 2e-7 of itself.
GRADSTEP_INLINE constexpr gradstep::adamax adamax(adam_arguments with = {}) {
    return {.beta1 = detail::attribute(with.beta1),
            .beta2 = detail::attribute(with.beta2),
            .epsilon = detail::attribute(with.epsilon),
            .epsilon_place = epsilon::accumulated};
}

struct nadam_arguments {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum_decay = 0.004;
    static constexpr auto members =
        member_list{member{"beta1", &nadam_arguments::beta1, ranges::fraction},
                    member{"beta2", &nadam_arguments::beta2, ranges::fraction},
                    member{"epsilon", &nadam_arguments::epsilon, ranges::non_negative},
                    member{"momentum_decay", &nadam_arguments::momentum_decay, ranges::non_negative}};
};

/// NAdam(): as in torch, Dozat's with mu_t = beta1 * (1 - 0.5 * 0.96^(momentum_decay * t)).
///
/// Paddle takes that power of a running product 0.96^t, which falls below the smallest number of its type. From there on
/// its mu_t stands still; here it does not.
GRADSTEP_INLINE constexpr gradstep::nadam nadam(nadam_arguments with = {}) {
    return {.beta1 = detail::attribute(with.beta1),
            .beta2 = detail::attribute(with.beta2),
            .epsilon = detail::attribute(with.epsilon),
            .momentum_decay = detail::attribute(with.momentum_decay),
            .epsilon_place = epsilon::outside};
}

/// RAdam(): the root is that of the paper's epsilon-hat, sqrt(1 - beta2^t) / (sqrt(v) + epsilon), as in torch.
GRADSTEP_INLINE constexpr gradstep::radam radam(adam_arguments with = {}) {
    return {.beta1 = detail::attribute(with.beta1),
            .beta2 = detail::attribute(with.beta2),
            .epsilon = detail::attribute(with.epsilon),
            .epsilon_place = epsilon::hat};
}

struct lamb_arguments {
    double lamb_weight_decay = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
    static constexpr auto members =
        member_list{member{"lamb_weight_decay", &lamb_arguments::lamb_weight_decay, ranges::non_negative},
                    member{"beta1", &lamb_arguments::beta1, ranges::fraction},
                    member{"beta2", &lamb_arguments::beta2, ranges::fraction},
                    member{"epsilon", &lamb_arguments::epsilon, ranges::non_negative}};
};

/// Lamb(): the ratio of norms is taken of the parameter as a whole, with the decay in the update; 1 where a norm is 0.
///
/// In float64 the powers of beta are off as in adamax. With lamb_weight_decay = 0 Paddle takes the ratio with
/// always_adapt=True only, and else is adam({.epsilon = 1e-6}); here it is always taken.
GRADSTEP_INLINE constexpr gradstep::lamb lamb(lamb_arguments with = {}) {
    return {.beta1 = detail::attribute(with.beta1),
            .beta2 = detail::attribute(with.beta2),
            .epsilon = detail::attribute(with.epsilon),
            .decay = detail::attribute(with.lamb_weight_decay)};
}

struct ftrl_arguments {
    double l1 = 0, l2 = 0, lr_power = -0.5;
    static constexpr auto members = member_list{member{"l1", &ftrl_arguments::l1, ranges::non_negative},
                                                member{"l2", &ftrl_arguments::l2, ranges::non_negative},
                                                member{"lr_power", &ftrl_arguments::lr_power, ranges::not_positive}};
};

/// ftrl, an operation for float32: FTRL as of a constant rate and without beta; l2 counts twice, l1 and l2 grow by
/// 1e-10.
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

/// The functions of this dialect, for those who read its names from configurations.
inline constexpr preset_list<sgd, momentum, momentum_nesterov, adagrad, decayed_adagrad, adadelta, rmsprop,
                             rmsprop_centered, rmsprop_momentum, rmsprop_centered_momentum, adam, adam_amsgrad, adamw,
                             adamw_amsgrad, adamax, nadam, radam, lamb, ftrl>
    presets{"paddle"};

} // namespace gradstep::dialects::paddle
