#pragma once
/// The rules of optax, with optax's names and defaults; compared with optax 0.2.8.
///
/// Some of optax's arguments are other policies here. The learning rate is a schedule. The
/// `weight_decay` of adamw, nadamw, adamaxw, lion, adan and ademamix is the regularizer
/// `decoupled{weight_decay}`: the same algebra, although optax adds it to the update. The
/// `weight_decay` of lars and adadelta is `l2{weight_decay}`. A switch that changes the state is a
/// separate function. The rules of optax.contrib are in gradstep/dialects/optax_contrib.hpp.
///
/// Only adabelief and adan have the second epsilon (eps_root). For adam with eps = 0 and an
/// eps_root, use `gradstep::adam{.epsilon = eps_root, .epsilon_place = epsilon::inside}`. These
/// options are missing: nesterov of rmsprop, radam, adabelief, lars and adopt; bias_correction of
/// rmsprop and amsgrad; schedules for b3 and alpha of ademamix; use_clipping and clip_value_fn of
/// adopt; the types of moments.
///
/// `make_updater` checks the numbers under the rule's names; `check_policy(arguments)` checks them
/// under optax's names.

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/optax_contrib.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/rules/adabelief.hpp>
#include <gradstep/rules/adadelta.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/adamax.hpp>
#include <gradstep/rules/adan.hpp>
#include <gradstep/rules/amsgrad.hpp>
#include <gradstep/rules/centered_momentum_rmsprop.hpp>
#include <gradstep/rules/centered_rmsprop.hpp>
#include <gradstep/rules/fromage.hpp>
#include <gradstep/rules/lamb.hpp>
#include <gradstep/rules/lars.hpp>
#include <gradstep/rules/lion.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/momentum_rmsprop.hpp>
#include <gradstep/rules/momentum_sm3.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/nesterov_adam.hpp>
#include <gradstep/rules/noisy_sgd.hpp>
#include <gradstep/rules/novograd.hpp>
#include <gradstep/rules/optimistic_adam.hpp>
#include <gradstep/rules/optimistic_sgd.hpp>
#include <gradstep/rules/radam.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/sgd.hpp>
#include <gradstep/rules/yogi.hpp>

namespace gradstep::dialects::optax {
/// sgd(momentum=None): gradient descent, w <- w - lr * g.
GRADSTEP_INLINE constexpr gradstep::sgd sgd() { return {}; }

/// The arguments of `sgd_momentum`. optax's default of momentum is None, which is `sgd`.
struct sgd_momentum_arguments {
    double momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &sgd_momentum_arguments::momentum, ranges::fraction}};
};
/// sgd with momentum: the rate is outside the buffer.
///
///     b <- momentum * b + g
///     w <- w - lr * b
GRADSTEP_INLINE constexpr gradstep::momentum sgd_momentum(sgd_momentum_arguments with = {}) {
    return {.mu = with.momentum};
}
/// sgd(nesterov=True): Nesterov's momentum, w <- w - lr * (g + momentum * b).
GRADSTEP_INLINE constexpr gradstep::nesterov sgd_nesterov(sgd_momentum_arguments with = {}) {
    return {.mu = with.momentum};
}

/// The arguments of `adagrad`.
struct adagrad_arguments {
    double initial_accumulator_value = 0.1, eps = 1e-7;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"initial_accumulator_value", &adagrad_arguments::initial_accumulator_value,
                                           ranges::non_negative},
                            hyperparameter{"eps", &adagrad_arguments::eps, ranges::non_negative}};
};
/// adagrad: epsilon is inside the root. If n is 0, nothing moves.
///
///     n <- n + g^2
///     w <- w - lr * g / sqrt(n + eps)
GRADSTEP_INLINE constexpr gradstep::adagrad adagrad(adagrad_arguments with = {}) {
    return {
        .epsilon = with.eps, .initial_accumulator = with.initial_accumulator_value, .epsilon_place = epsilon::inside};
}

/// The arguments of `adadelta`.
struct adadelta_arguments {
    double rho = 0.9, eps = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &adadelta_arguments::rho, ranges::fraction},
                            hyperparameter{"eps", &adadelta_arguments::eps, ranges::non_negative}};
};
/// adadelta: optax's default rate is 1.
GRADSTEP_INLINE constexpr gradstep::adadelta adadelta(adadelta_arguments with = {}) {
    return {.rho = with.rho, .epsilon = with.eps};
}

/// The arguments of `rmsprop` without momentum.
struct rmsprop_arguments {
    double decay = 0.9, eps = 1e-8, initial_scale = 0;
    bool eps_in_sqrt = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"decay", &rmsprop_arguments::decay, ranges::fraction},
                            hyperparameter{"eps", &rmsprop_arguments::eps, ranges::non_negative},
                            hyperparameter{"initial_scale", &rmsprop_arguments::initial_scale, ranges::non_negative},
                            hyperparameter{"eps_in_sqrt", &rmsprop_arguments::eps_in_sqrt}};
};
/// rmsprop: epsilon is inside the root unless eps_in_sqrt is false.
///
///     n <- decay * n + (1 - decay) * g^2             initially initial_scale
///     w <- w - lr * g / sqrt(n + eps)
GRADSTEP_INLINE constexpr gradstep::rmsprop rmsprop(rmsprop_arguments with = {}) {
    return {.rho = with.decay,
            .epsilon = with.eps,
            .epsilon_place = with.eps_in_sqrt ? epsilon::inside : epsilon::outside,
            .initial_accumulator = with.initial_scale};
}
/// rmsprop(centered=True): sqrt(n - a^2 + eps), with a <- decay * a + (1 - decay) * g. If rounding
/// makes n - a^2 negative, the rule uses 0.
GRADSTEP_INLINE constexpr gradstep::centered_rmsprop rmsprop_centered(rmsprop_arguments with = {}) {
    return {.rho = with.decay,
            .epsilon = with.eps,
            .epsilon_place = with.eps_in_sqrt ? epsilon::inside : epsilon::outside,
            .initial_accumulator = with.initial_scale};
}

/// The arguments of rmsprop with momentum. optax's default of momentum is None, which is `rmsprop`.
struct rmsprop_momentum_arguments {
    double decay = 0.9, eps = 1e-8, initial_scale = 0;
    bool eps_in_sqrt = true;
    double momentum = 0.9;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"decay", &rmsprop_momentum_arguments::decay, ranges::fraction},
        hyperparameter{"eps", &rmsprop_momentum_arguments::eps, ranges::non_negative},
        hyperparameter{"initial_scale", &rmsprop_momentum_arguments::initial_scale, ranges::non_negative},
        hyperparameter{"eps_in_sqrt", &rmsprop_momentum_arguments::eps_in_sqrt},
        hyperparameter{"momentum", &rmsprop_momentum_arguments::momentum, ranges::fraction}};
};
/// rmsprop with momentum: the rate is inside the buffer, unlike in sgd. optax's trace is -b.
///
///     b <- momentum * b + lr * g / sqrt(n + eps)
///     w <- w - b
GRADSTEP_INLINE constexpr gradstep::momentum_rmsprop rmsprop_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = with.decay,
            .epsilon = with.eps,
            .mu = with.momentum,
            .epsilon_place = with.eps_in_sqrt ? epsilon::inside : epsilon::outside,
            .initial_accumulator = with.initial_scale,
            .rate_place = learning_rate::inside};
}
/// rmsprop(centered=True) with momentum: it has the root of rmsprop_centered and the buffer of
/// rmsprop_momentum.
GRADSTEP_INLINE constexpr gradstep::centered_momentum_rmsprop
rmsprop_centered_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = with.decay,
            .epsilon = with.eps,
            .mu = with.momentum,
            .epsilon_place = with.eps_in_sqrt ? epsilon::inside : epsilon::outside,
            .initial_accumulator = with.initial_scale,
            .rate_place = learning_rate::inside};
}

/// The arguments of `adam` and its variants.
struct adam_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &adam_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &adam_arguments::b2, ranges::fraction},
                            hyperparameter{"eps", &adam_arguments::eps, ranges::non_negative}};
};
/// adam: epsilon is outside the root and after the bias correction.
///
///     w <- w - lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps};
}
/// adamw is adam with the regularizer `decoupled{weight_decay}`; optax's default of weight_decay is
/// 1e-4.
GRADSTEP_INLINE constexpr gradstep::adam adamw(adam_arguments with = {}) { return adam(with); }

/// nadam, the same as adam(nesterov=True): the moment has the bias correction of the next step.
/// There is no schedule of b1, unlike in torch and Keras.
///
///     w <- w - lr * (b1 * m / (1 - b1^(t + 1)) + (1 - b1) * g / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
GRADSTEP_INLINE constexpr gradstep::nesterov_adam nadam(adam_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps, .momentum_bias = momentum_bias::next_step};
}
/// nadamw is nadam with the regularizer `decoupled{weight_decay}`; optax's default of weight_decay
/// is 1e-4.
GRADSTEP_INLINE constexpr gradstep::nesterov_adam nadamw(adam_arguments with = {}) { return nadam(with); }

/// amsgrad: it keeps the maximum of v after the bias correction, unlike torch and Keras.
/// bias_correction_mu and bias_correction_nu are always on.
GRADSTEP_INLINE constexpr gradstep::amsgrad amsgrad(adam_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps, .maximum_of = maximum::corrected};
}

/// adamax: epsilon is inside the maximum.
///
///     u <- max(b2 * u, |g| + eps)
///     w <- w - lr * (m / (1 - b1^t)) / u
GRADSTEP_INLINE constexpr gradstep::adamax adamax(adam_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps, .epsilon_place = epsilon::inside};
}
/// adamaxw is adamax with the regularizer `decoupled{weight_decay}`; optax's default of
/// weight_decay is 1e-4.
GRADSTEP_INLINE constexpr gradstep::adamax adamaxw(adam_arguments with = {}) { return adamax(with); }

/// radam: rho_t >= 5 (torch: > 5), and epsilon after the bias correction (torch: before). Other
/// thresholds and nesterov are missing.
GRADSTEP_INLINE constexpr gradstep::radam radam(adam_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps};
}

/// The arguments of `adabelief`.
struct adabelief_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-16, eps_root = 1e-16;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &adabelief_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &adabelief_arguments::b2, ranges::fraction},
                            hyperparameter{"eps", &adabelief_arguments::eps, ranges::non_negative},
                            hyperparameter{"eps_root", &adabelief_arguments::eps_root, ranges::non_negative}};
};
/// adabelief: eps_root is added to s at every step and stays in it.
GRADSTEP_INLINE constexpr gradstep::adabelief adabelief(adabelief_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps, .epsilon_root = with.eps_root};
}

/// The arguments of `yogi`.
struct yogi_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-3;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &yogi_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &yogi_arguments::b2, ranges::fraction},
                            hyperparameter{"eps", &yogi_arguments::eps, ranges::non_negative}};
};
/// yogi: both moments start at 1e-6, so the first steps move weights without gradient. The paper
/// starts m at 0.
GRADSTEP_INLINE constexpr gradstep::yogi yogi(yogi_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps, .initial_accumulator = 1e-6};
}

/// The arguments of `lion`.
struct lion_arguments {
    double b1 = 0.9, b2 = 0.99;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &lion_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &lion_arguments::b2, ranges::fraction}};
};
/// lion: sign(0) = 0. Add the regularizer `decoupled{weight_decay}`; optax's default of
/// weight_decay is 1e-3.
GRADSTEP_INLINE constexpr gradstep::lion lion(lion_arguments with = {}) { return {.beta1 = with.b1, .beta2 = with.b2}; }

/// The arguments of `lamb`.
struct lamb_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-6, weight_decay = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &lamb_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &lamb_arguments::b2, ranges::fraction},
                            hyperparameter{"eps", &lamb_arguments::eps, ranges::non_negative},
                            hyperparameter{"weight_decay", &lamb_arguments::weight_decay, ranges::non_negative}};
};
/// lamb: it uses the ratio of norms of a tensor. The decay belongs to the rule, since it enters the
/// norm. The ratio is 1 if a norm is 0.
GRADSTEP_INLINE constexpr gradstep::lamb lamb(lamb_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps, .decay = with.weight_decay};
}

/// The arguments of `lars`.
struct lars_arguments {
    double trust_coefficient = 0.001, eps = 0, momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"trust_coefficient", &lars_arguments::trust_coefficient, ranges::positive},
                            hyperparameter{"eps", &lars_arguments::eps, ranges::non_negative},
                            hyperparameter{"momentum", &lars_arguments::momentum, ranges::fraction}};
};
/// lars: it uses the ratio of norms of a tensor. Add the regularizer `l2{weight_decay}`. The rate
/// is inside the buffer; optax's trace is -m.
GRADSTEP_INLINE constexpr gradstep::lars lars(lars_arguments with = {}) {
    return {.mu = with.momentum, .trust = with.trust_coefficient, .epsilon = with.eps};
}

/// The arguments of `signum`.
struct signum_arguments {
    double beta = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta", &signum_arguments::beta, ranges::fraction}};
};
/// signum: lion with one beta, which is the same formula.
///
///     m <- beta * m + (1 - beta) * g
///     w <- w - lr * sgn(m)                           sgn(0) = 0
GRADSTEP_INLINE constexpr gradstep::lion signum(signum_arguments with = {}) {
    return {.beta1 = with.beta, .beta2 = with.beta};
}

/// The arguments of `adan`.
struct adan_arguments {
    double b1 = 0.98, b2 = 0.92, b3 = 0.99, eps = 1e-8, eps_root = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &adan_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &adan_arguments::b2, ranges::fraction},
                            hyperparameter{"b3", &adan_arguments::b3, ranges::fraction},
                            hyperparameter{"eps", &adan_arguments::eps, ranges::non_negative},
                            hyperparameter{"eps_root", &adan_arguments::eps_root, ranges::non_negative}};
};
/// adan: it weighs the difference of the gradients by 1 - b2, which is the paper's formula, but not
/// with the paper's numbers: 1 - b2 is 0.08 here and 0.92 there.
GRADSTEP_INLINE constexpr gradstep::adan adan(adan_arguments with = {}) {
    return {.beta1 = with.b1,
            .beta2 = with.b2,
            .beta3 = with.b3,
            .epsilon = with.eps,
            .epsilon_root = with.eps_root,
            .difference_weight = difference_weight::one_minus_beta2};
}

/// The arguments of `optimistic_gradient_descent`.
struct optimistic_gradient_descent_arguments {
    double alpha = 1, beta = 1;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"alpha", &optimistic_gradient_descent_arguments::alpha, ranges::non_negative},
        hyperparameter{"beta", &optimistic_gradient_descent_arguments::beta, ranges::non_negative}};
};
/// optimistic_gradient_descent: p is the gradient of the step before.
///
///     w <- w - lr * ((alpha + beta) * g - beta * p)
GRADSTEP_INLINE constexpr gradstep::optimistic_sgd
optimistic_gradient_descent(optimistic_gradient_descent_arguments with = {}) {
    return {.alpha = with.alpha, .beta = with.beta};
}

/// The arguments of `optimistic_adam_v2`.
struct optimistic_adam_v2_arguments {
    double alpha = 1, beta = 1, b1 = 0.9, b2 = 0.999, eps = 1e-8;
    bool nesterov = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"alpha", &optimistic_adam_v2_arguments::alpha, ranges::non_negative},
                            hyperparameter{"beta", &optimistic_adam_v2_arguments::beta, ranges::non_negative},
                            hyperparameter{"b1", &optimistic_adam_v2_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &optimistic_adam_v2_arguments::b2, ranges::fraction},
                            hyperparameter{"eps", &optimistic_adam_v2_arguments::eps, ranges::non_negative},
                            hyperparameter{"nesterov", &optimistic_adam_v2_arguments::nesterov}};
};
/// optimistic_adam_v2: u is the direction of adam or, with nesterov, of nadam.
///
///     w <- w - lr * ((alpha + beta) * u - beta * p)
///     p <- u
GRADSTEP_INLINE constexpr gradstep::optimistic_adam optimistic_adam_v2(optimistic_adam_v2_arguments with = {}) {
    return {.alpha = with.alpha,
            .beta = with.beta,
            .beta1 = with.b1,
            .beta2 = with.b2,
            .epsilon = with.eps,
            .nesterov = with.nesterov};
}

/// The arguments of `novograd`.
struct novograd_arguments {
    double b1 = 0.9, b2 = 0.25, eps = 1e-6, weight_decay = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &novograd_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &novograd_arguments::b2, ranges::fraction},
                            hyperparameter{"eps", &novograd_arguments::eps, ranges::non_negative},
                            hyperparameter{"weight_decay", &novograd_arguments::weight_decay, ranges::non_negative}};
};
/// novograd: the decay belongs to the rule, since it joins the normalized gradient. optax begins nu
/// with the first gradient, gradstep with the first that is not 0.
GRADSTEP_INLINE constexpr gradstep::novograd novograd(novograd_arguments with = {}) {
    return {.beta1 = with.b1, .beta2 = with.b2, .epsilon = with.eps, .weight_decay = with.weight_decay};
}

/// The arguments of `fromage`.
struct fromage_arguments {
    double min_norm = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"min_norm", &fromage_arguments::min_norm, ranges::non_negative}};
};
/// fromage: both norms are at least min_norm.
GRADSTEP_INLINE constexpr gradstep::fromage fromage(fromage_arguments with = {}) { return {.min_norm = with.min_norm}; }

/// The arguments of `noisy_sgd`. Its key is the seed of the step.
struct noisy_sgd_arguments {
    double eta = 0.01, gamma = 0.55;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"eta", &noisy_sgd_arguments::eta, ranges::non_negative},
                            hyperparameter{"gamma", &noisy_sgd_arguments::gamma, ranges::non_negative}};
};
/// noisy_sgd: noise of the variance eta / t^gamma in the gradient. The random numbers are not
/// optax's.
GRADSTEP_INLINE constexpr gradstep::noisy_sgd noisy_sgd(noisy_sgd_arguments with = {}) {
    return {.eta = with.eta, .gamma = with.gamma};
}

/// The arguments of `adafactor`. For clipping_threshold=None, use an infinite one.
struct adafactor_arguments {
    double decay_rate = 0.8;
    bool multiply_by_parameter_scale = true;
    double clipping_threshold = 1, eps = 1e-30;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"decay_rate", &adafactor_arguments::decay_rate, ranges::non_negative},
        hyperparameter{"multiply_by_parameter_scale", &adafactor_arguments::multiply_by_parameter_scale},
        hyperparameter{"clipping_threshold", &adafactor_arguments::clipping_threshold, ranges::positive_or_infinite},
        hyperparameter{"eps", &adafactor_arguments::eps, ranges::non_negative}};
};
/// adafactor without momentum. The parameter needs a shape if optax factors it: if both dimensions
/// are at least min_dim_size_to_factor, 128 by default.
///
///     beta <- 1 - t^-decay_rate
///     r, c <- averages of the means of g^2 + eps over rows and columns, with beta
///     u = g / sqrt(r c / mean(r))
///     w <- w - max(1e-3, RMS(w)) * lr / max(1, RMS(u) / clipping_threshold) * u
GRADSTEP_INLINE constexpr gradstep::adafactor adafactor(adafactor_arguments with = {}) {
    return {.beta2_decay = -with.decay_rate,
            .epsilon = with.eps,
            .d = with.clipping_threshold,
            .relative_step = false,
            .scale_parameter = with.multiply_by_parameter_scale};
}

/// The arguments of `sm3`.
struct sm3_arguments {
    double momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &sm3_arguments::momentum, ranges::fraction}};
};
/// sm3: epsilon, 1e-8, is inside the root. The parameter needs a shape if it is a matrix.
GRADSTEP_INLINE constexpr gradstep::momentum_sm3 sm3(sm3_arguments with = {}) { return {.beta1 = with.momentum}; }

/// The presets of optax: name -> function, used by the configuration.
inline constexpr preset_list<sgd, sgd_momentum, sgd_nesterov, adagrad, adadelta, rmsprop, rmsprop_centered,
                             rmsprop_momentum, rmsprop_centered_momentum, adam, adamw, nadam, nadamw, amsgrad, adamax,
                             adamaxw, radam, adabelief, yogi, lion, lamb, lars, signum, adan,
                             optimistic_gradient_descent, optimistic_adam_v2, novograd, fromage, noisy_sgd, adafactor,
                             sm3, ademamix, adopt, cocob, madgrad, schedule_free_sgd, schedule_free_adamw>
    presets{"optax"};
} // namespace gradstep::dialects::optax
