#pragma once
/// The rules of torch.optim, with torch's names and defaults; compared with torch 2.14.1, with
/// single-tensor updates on the CPU. The others (foreach, fused, CUDA) compute the same formulas
/// with different rounding.
///
/// Some of torch's arguments are other policies here:
///
/// - the learning rate is a schedule;
/// - `weight_decay` is the regularizer `l2{weight_decay}`; for AdamW, and with
///   `decoupled_weight_decay`, it is `decoupled{weight_decay}`, before the rule as in torch;
/// - a switch that changes the state is a separate function;
/// - a pair such as `betas` is beta1 and beta2;
/// - `maximize` is a gradient with the opposite sign.
///
/// `make_updater` checks the numbers under the rule's names; `check_policy(arguments)` checks them
/// under torch's names, and rejects what torch rejects.
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/averaging/polyak.hpp>
#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/rules/adadelta.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/adamax.hpp>
#include <gradstep/rules/amsgrad.hpp>
#include <gradstep/rules/centered_momentum_rmsprop.hpp>
#include <gradstep/rules/centered_rmsprop.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/momentum_rmsprop.hpp>
#include <gradstep/rules/nadam.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/radam.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/rprop.hpp>
#include <gradstep/rules/sgd.hpp>
#include <gradstep/schedules/poly.hpp>

namespace gradstep::dialects::torch {
/// SGD(momentum=0): gradient descent, w <- w - lr * g.
GRADSTEP_INLINE constexpr gradstep::sgd sgd() { return {}; }

/// The arguments of `sgd_momentum`. torch's default of momentum is 0, which is `sgd`.
struct sgd_momentum_arguments {
    double momentum = 0.9, dampening = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &sgd_momentum_arguments::momentum, ranges::fraction},
                            hyperparameter{"dampening", &sgd_momentum_arguments::dampening, ranges::fraction}};
};
/// SGD with momentum: the rate is outside the buffer, and the first gradient is not dampened.
///
///     b <- momentum * b + (1 - dampening) * g        b <- g at the first step
///     w <- w - lr * b
GRADSTEP_INLINE constexpr gradstep::momentum sgd_momentum(sgd_momentum_arguments with = {}) {
    return {.mu = with.momentum, .dampening = with.dampening};
}

/// The arguments of `sgd_nesterov`. torch's default of momentum is 0. With nesterov, torch rejects
/// 0 and any dampening.
struct sgd_nesterov_arguments {
    double momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &sgd_nesterov_arguments::momentum, ranges::positive_fraction}};
};
/// SGD(nesterov=True): Nesterov's momentum, with the rate outside the buffer.
///
///     b <- momentum * b + g
///     w <- w - lr * (g + momentum * b)
GRADSTEP_INLINE constexpr gradstep::nesterov sgd_nesterov(sgd_nesterov_arguments with = {}) {
    return {.mu = with.momentum};
}

/// The arguments of RMSprop.
struct rmsprop_arguments {
    double alpha = 0.99, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"alpha", &rmsprop_arguments::alpha, ranges::fraction},
                            hyperparameter{"eps", &rmsprop_arguments::eps, ranges::non_negative}};
};
/// RMSprop: epsilon is outside the root.
///
///     n <- alpha * n + (1 - alpha) * g^2
///     w <- w - lr * g / (sqrt(n) + eps)
GRADSTEP_INLINE constexpr gradstep::rmsprop rmsprop(rmsprop_arguments with = {}) {
    return {.rho = with.alpha, .epsilon = with.eps};
}
/// RMSprop(centered=True): sqrt(n - a^2) instead of sqrt(n), with a <- alpha * a + (1 - alpha) * g.
/// If rounding makes n - a^2 negative, torch gives NaN, and the rule uses 0.
GRADSTEP_INLINE constexpr gradstep::centered_rmsprop rmsprop_centered(rmsprop_arguments with = {}) {
    return {.rho = with.alpha, .epsilon = with.eps};
}

/// The arguments of RMSprop with momentum. torch's default of momentum is 0, which is `rmsprop`.
struct rmsprop_momentum_arguments {
    double alpha = 0.99, eps = 1e-8, momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"alpha", &rmsprop_momentum_arguments::alpha, ranges::fraction},
                            hyperparameter{"eps", &rmsprop_momentum_arguments::eps, ranges::non_negative},
                            hyperparameter{"momentum", &rmsprop_momentum_arguments::momentum, ranges::fraction}};
};
/// RMSprop with momentum: the rate is outside the buffer.
///
///     b <- momentum * b + g / (sqrt(n) + eps)
///     w <- w - lr * b
GRADSTEP_INLINE constexpr gradstep::momentum_rmsprop rmsprop_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = with.alpha, .epsilon = with.eps, .mu = with.momentum};
}
/// RMSprop(centered=True) with momentum: it has the root of rmsprop_centered and the buffer of
/// rmsprop_momentum.
GRADSTEP_INLINE constexpr gradstep::centered_momentum_rmsprop
rmsprop_centered_momentum(rmsprop_momentum_arguments with = {}) {
    return {.rho = with.alpha, .epsilon = with.eps, .mu = with.momentum};
}

/// The arguments of Adagrad.
struct adagrad_arguments {
    double initial_accumulator_value = 0, eps = 1e-10;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"initial_accumulator_value", &adagrad_arguments::initial_accumulator_value,
                                           ranges::non_negative},
                            hyperparameter{"eps", &adagrad_arguments::eps, ranges::non_negative}};
};
/// Adagrad. torch's `lr_decay` is the schedule `inverse_time{lr, lr_decay, 1}`.
///
///     n <- n + g^2
///     w <- w - lr * g / (sqrt(n) + eps)
GRADSTEP_INLINE constexpr gradstep::adagrad adagrad(adagrad_arguments with = {}) {
    return {.epsilon = with.eps, .initial_accumulator = with.initial_accumulator_value};
}

/// The arguments of Adadelta.
struct adadelta_arguments {
    double rho = 0.9, eps = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &adadelta_arguments::rho, ranges::fraction},
                            hyperparameter{"eps", &adadelta_arguments::eps, ranges::non_negative}};
};
/// Adadelta. torch's default rate is 1; Keras and Paddle have a rho of 0.95.
GRADSTEP_INLINE constexpr gradstep::adadelta adadelta(adadelta_arguments with = {}) {
    return {.rho = with.rho, .epsilon = with.eps};
}

/// The arguments of Adam and its variants.
struct adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &adam_arguments::eps, ranges::non_negative}};
};
/// Adam: epsilon is outside the root and after the bias correction.
///
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps};
}
/// Adam(amsgrad=True): it keeps the maximum of v before the bias correction.
GRADSTEP_INLINE constexpr gradstep::amsgrad adam_amsgrad(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps};
}
/// AdamW is Adam with the regularizer `decoupled{weight_decay}`; torch's default of weight_decay is
/// 0.01.
GRADSTEP_INLINE constexpr gradstep::adam adamw(adam_arguments with = {}) { return adam(with); }
/// AdamW(amsgrad=True): Adam(amsgrad=True) with the regularizer `decoupled{weight_decay}`.
GRADSTEP_INLINE constexpr gradstep::amsgrad adamw_amsgrad(adam_arguments with = {}) { return adam_amsgrad(with); }

/// The arguments of SparseAdam, which rejects an eps of 0.
struct sparse_adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &sparse_adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &sparse_adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &sparse_adam_arguments::eps, ranges::positive}};
};
/// SparseAdam, for the rows of a sparse gradient. epsilon comes before the bias correction, unlike
/// in Adam, so the two give different numbers. Inactive rows keep their moments while t increases:
/// use a table with `touch_only`.
///
///     w <- w - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps)
GRADSTEP_INLINE constexpr gradstep::adam sparse_adam(sparse_adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .epsilon_place = epsilon::hat};
}

/// Adamax: epsilon is inside the maximum. torch's default rate is 0.002.
///
///     u <- max(beta2 * u, |g| + eps)
///     w <- w - lr / (1 - beta1^t) * m / u
GRADSTEP_INLINE constexpr gradstep::adamax adamax(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .epsilon_place = epsilon::inside};
}

/// The arguments of NAdam.
struct nadam_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, momentum_decay = 0.004;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &nadam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &nadam_arguments::beta2, ranges::fraction},
                            hyperparameter{"eps", &nadam_arguments::eps, ranges::non_negative},
                            hyperparameter{"momentum_decay", &nadam_arguments::momentum_decay, ranges::non_negative}};
};
/// NAdam: mu_t = beta1 * (1 - 0.5 * 0.96^(momentum_decay * t)). torch's default rate is 0.002.
/// torch keeps the product of the mu in float, even for double weights, unless its default type is
/// double.
GRADSTEP_INLINE constexpr gradstep::nadam nadam(nadam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .momentum_decay = with.momentum_decay};
}

/// RAdam: rho_t > 5, and epsilon before the bias correction, unlike in Adam.
GRADSTEP_INLINE constexpr gradstep::radam radam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.eps, .epsilon_place = epsilon::hat};
}

/// The arguments of Rprop. torch's `etas` and `step_sizes` are pairs, and its `lr` is only the
/// first step size, here `initial_step`.
struct rprop_arguments {
    double initial_step = 0.01, etaminus = 0.5, etaplus = 1.2, step_size_min = 1e-6, step_size_max = 50;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"initial_step", &rprop_arguments::initial_step, ranges::positive},
                            hyperparameter{"etaminus", &rprop_arguments::etaminus, ranges::positive_fraction},
                            hyperparameter{"etaplus", &rprop_arguments::etaplus, ranges::at_least_one},
                            hyperparameter{"step_size_min", &rprop_arguments::step_size_min, ranges::non_negative},
                            hyperparameter{"step_size_max", &rprop_arguments::step_size_max, ranges::positive}};
};
/// Rprop: use the schedule `constant{1}`. A first step size outside the range is an error; torch
/// clips it.
///
///     eta <- clip(eta * (etaplus or etaminus), step_size_min, step_size_max)
///     w <- w - eta * sgn(g)
GRADSTEP_INLINE constexpr gradstep::rprop rprop(rprop_arguments with = {}) {
    return {.initial_step = with.initial_step,
            .shrink = with.etaminus,
            .grow = with.etaplus,
            .smallest_step = with.step_size_min,
            .largest_step = with.step_size_max};
}

/// The arguments of Adafactor: eps is (eps1, eps2). The default of eps1 is torch's for float32, the
/// machine epsilon; torch takes the machine epsilon of the dtype.
struct adafactor_arguments {
    double beta2_decay = -0.8, eps1 = 0x1p-23, eps2 = 1e-3, d = 1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta2_decay", &adafactor_arguments::beta2_decay, ranges::not_positive},
                            hyperparameter{"eps1", &adafactor_arguments::eps1, ranges::non_negative},
                            hyperparameter{"eps2", &adafactor_arguments::eps2, ranges::non_negative},
                            hyperparameter{"d", &adafactor_arguments::d, ranges::at_least_one}};
};
/// Adafactor: eps1 is a lower bound of mean(r) and of the root. The parameter needs a shape; torch
/// factors the last two dimensions of a tensor with more. torch's default of lr is 0.01.
///
///     beta2 <- 1 - t^beta2_decay
///     r, c <- averages of the means of g^2 over rows and columns, with beta2
///     u = g / max(sqrt(r c / max(mean(r), eps1)), eps1)
///     w <- w - max(eps2, RMS(w)) * min(lr, 1 / sqrt(t)) / max(1, RMS(u) / d) * u
GRADSTEP_INLINE constexpr gradstep::adafactor adafactor(adafactor_arguments with = {}) {
    return {.beta2_decay = with.beta2_decay, .epsilon = 0, .clamp = with.eps1, .epsilon2 = with.eps2, .d = with.d};
}

/// The arguments of ASGD.
struct asgd_arguments {
    double lr = 0.01, lambd = 1e-4, alpha = 0.75;
    std::int64_t t0 = 1'000'000;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"lr", &asgd_arguments::lr, ranges::non_negative},
                            hyperparameter{"lambd", &asgd_arguments::lambd, ranges::non_negative},
                            hyperparameter{"alpha", &asgd_arguments::alpha, ranges::non_negative},
                            hyperparameter{"t0", &asgd_arguments::t0, ranges::count}};
};
/// The policies of `asgd`, for `make_updater`.
struct asgd_policies {
    gradstep::averaged<gradstep::sgd, gradstep::polyak> rule;
    gradstep::decoupled regularizer;
    gradstep::poly schedule;
};
/// ASGD: averaged gradient descent, which is not one rule here but three policies. It has no name
/// in configurations, which give the three policies by their own names. `average` reads torch's
/// `ax`.
///
///     auto const asgd = gs::dialects::torch::asgd({.lr = 0.01});
///     auto optimizer = gs::make_updater<float>(asgd.rule, asgd.regularizer, asgd.schedule);
///
///     eta = lr / (1 + lambd * lr * (t - 1))^alpha
///     w <- (1 - lambd * eta) * w - eta * g
///     average <- w until step t0 + 2, then average + (w - average) / (t - 1 - t0)
///
/// For torch's `weight_decay`, use the regularizer `all_of{l2{weight_decay}, asgd.regularizer}`.
/// torch keeps eta in float, even for double weights, unless its default type is double. A negative
/// t0 is missing.
GRADSTEP_INLINE constexpr asgd_policies asgd(asgd_arguments with = {}) {
    return {{gradstep::sgd{}, gradstep::polyak{.start = with.t0 + 1}},
            gradstep::decoupled{with.lambd},
            gradstep::poly{.rate = with.lr, .a = with.lambd * with.lr, .b = with.alpha}};
}

/// The presets of torch: name -> function, used by the configuration.
inline constexpr preset_list<sgd, sgd_momentum, sgd_nesterov, rmsprop, rmsprop_centered, rmsprop_momentum,
                             rmsprop_centered_momentum, adagrad, adadelta, adam, adam_amsgrad, adamw, adamw_amsgrad,
                             sparse_adam, adamax, nadam, radam, rprop, adafactor>
    presets{"torch"};
} // namespace gradstep::dialects::torch
