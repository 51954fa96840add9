#pragma once
/// The optimizers of ensmallen, which mlpack uses, with ensmallen's arguments and defaults;
/// compared with ensmallen 2.22.1.
///
/// The step size is a schedule; in an ensmallen optimizer, it is the optimizer's
/// (`gradstep/adapt/ensmallen.hpp`). ensmallen has no weight decay and no clipping of norms.
///
/// ensmallen's yogi, padam and ada_bound have other formulas than the rules of these names here.

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/rules/adabelief.hpp>
#include <gradstep/rules/adadelta.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/adamax.hpp>
#include <gradstep/rules/amsgrad.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/nadam.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/qhadam.hpp>
#include <gradstep/rules/qhm.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/sgd.hpp>

namespace gradstep::dialects::ensmallen {
/// StandardSGD: gradient descent.
///
///     w <- w - lr * g
GRADSTEP_INLINE constexpr gradstep::sgd standard_sgd() { return {}; }

/// The argument of `momentum_sgd` and `nesterov_momentum_sgd`.
struct momentum_arguments {
    double momentum = 0.5;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &momentum_arguments::momentum, ranges::fraction}};
};

/// MomentumSGD: the rate is inside the buffer.
///
///     velocity <- momentum * velocity - lr * g
///     w <- w + velocity
GRADSTEP_INLINE constexpr gradstep::momentum momentum_sgd(momentum_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::inside};
}

/// NesterovMomentumSGD: the rate is inside the buffer.
///
///     velocity <- momentum * velocity - lr * g
///     w <- w + momentum * velocity - lr * g
GRADSTEP_INLINE constexpr gradstep::nesterov nesterov_momentum_sgd(momentum_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::inside};
}

struct qhsgd_arguments {
    double v = 0.7, momentum = 0.999;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"v", &qhsgd_arguments::v, ranges::share},
                            hyperparameter{"momentum", &qhsgd_arguments::momentum, ranges::fraction}};
};

/// QHSGD: a mean of a gradient step and a momentum step.
///
///     velocity <- momentum * velocity + (1 - momentum) * g
///     w <- w - lr * ((1 - v) * g + v * velocity)
GRADSTEP_INLINE constexpr gradstep::qhm qhsgd(qhsgd_arguments with = {}) {
    return {.beta = with.momentum, .nu = with.v};
}

struct rmsprop_arguments {
    double alpha = 0.99, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"alpha", &rmsprop_arguments::alpha, ranges::fraction},
                            hyperparameter{"epsilon", &rmsprop_arguments::epsilon, ranges::non_negative}};
};

/// RMSProp: epsilon is outside the root.
GRADSTEP_INLINE constexpr gradstep::rmsprop rmsprop(rmsprop_arguments with = {}) {
    return {.rho = with.alpha, .epsilon = with.epsilon};
}

struct ada_grad_arguments {
    double epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"epsilon", &ada_grad_arguments::epsilon, ranges::non_negative}};
};

/// AdaGrad: epsilon is outside the root, and the sum begins with 0.
GRADSTEP_INLINE constexpr gradstep::adagrad ada_grad(ada_grad_arguments with = {}) { return {.epsilon = with.epsilon}; }

struct ada_delta_arguments {
    double rho = 0.95, epsilon = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &ada_delta_arguments::rho, ranges::fraction},
                            hyperparameter{"epsilon", &ada_delta_arguments::epsilon, ranges::non_negative}};
};

/// AdaDelta: the same as in other frameworks. The default of its step size is 1.
GRADSTEP_INLINE constexpr gradstep::adadelta ada_delta(ada_delta_arguments with = {}) {
    return {.rho = with.rho, .epsilon = with.epsilon};
}

/// The arguments of `adam`, `amsgrad` and `adamax`.
struct adam_arguments {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adam_arguments::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &adam_arguments::epsilon, ranges::non_negative}};
};

/// Adam: with the paper's epsilon-hat.
///
///     w <- w - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::hat};
}

/// AMSGrad: the maximum of the raw v, with epsilon-hat.
GRADSTEP_INLINE constexpr gradstep::amsgrad amsgrad(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::hat};
}

/// AdaMax: epsilon is outside the maximum.
GRADSTEP_INLINE constexpr gradstep::adamax adamax(adam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_place = epsilon::outside};
}

/// The arguments of `nadam`. `schedule_decay` is ensmallen's scheduleDecay.
struct nadam_arguments {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, schedule_decay = 0.004;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &nadam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &nadam_arguments::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &nadam_arguments::epsilon, ranges::non_negative},
                            hyperparameter{"schedule_decay", &nadam_arguments::schedule_decay, ranges::non_negative}};
};

/// Nadam: Dozat's form, with epsilon-hat.
GRADSTEP_INLINE constexpr gradstep::nadam nadam(nadam_arguments with = {}) {
    return {.beta1 = with.beta1,
            .beta2 = with.beta2,
            .epsilon = with.epsilon,
            .momentum_decay = with.schedule_decay,
            .epsilon_place = epsilon::hat};
}

/// The arguments of `ada_belief`.
struct ada_belief_arguments {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-12;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &ada_belief_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &ada_belief_arguments::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &ada_belief_arguments::epsilon, ranges::non_negative}};
};

/// AdaBelief: epsilon is added to s in every step, and outside the root.
GRADSTEP_INLINE constexpr gradstep::adabelief ada_belief(ada_belief_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .epsilon = with.epsilon, .epsilon_root = with.epsilon};
}

/// The arguments of `qhadam`.
struct qhadam_arguments {
    double v1 = 0.7, v2 = 1, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"v1", &qhadam_arguments::v1, ranges::share},
                            hyperparameter{"v2", &qhadam_arguments::v2, ranges::share},
                            hyperparameter{"beta1", &qhadam_arguments::beta1, ranges::fraction},
                            hyperparameter{"beta2", &qhadam_arguments::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &qhadam_arguments::epsilon, ranges::non_negative}};
};

/// QHAdam: as in the paper.
GRADSTEP_INLINE constexpr gradstep::qhadam qhadam(qhadam_arguments with = {}) {
    return {.beta1 = with.beta1, .beta2 = with.beta2, .nu1 = with.v1, .nu2 = with.v2, .epsilon = with.epsilon};
}

/// The presets of ensmallen: name -> function, used by the configuration.
inline constexpr preset_list<standard_sgd, momentum_sgd, nesterov_momentum_sgd, qhsgd, rmsprop, ada_grad, ada_delta,
                             adam, amsgrad, adamax, nadam, ada_belief, qhadam>
    presets{"ensmallen"};
} // namespace gradstep::dialects::ensmallen
