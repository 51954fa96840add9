#pragma once
/// The solvers of dlib's deep learning API, with dlib's arguments and defaults; compared with dlib
/// 19.24.
///
/// Some of dlib's arguments are other policies here:
///
/// - the learning rate is a schedule; in a `dlib::dnn_trainer`, it is the trainer's
///   (`gradstep/adapt/dlib.hpp`);
/// - `weight_decay` is `l2{0.0005}`, dlib's default: it is added to the gradient.
///
/// Known inaccuracies of dlib: adam computes 1 - momentum1^t and 1 - momentum2^t in float32, from
/// numbers rounded to float32. At the first step, 1 - 0.999 therefore has a relative error of
/// 1.3e-5. dlib computes in float32 only.

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/momentum.hpp>

namespace gradstep::dialects::dlib {
/// The argument of `sgd`.
struct sgd_arguments {
    double momentum = 0.9;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum", &sgd_arguments::momentum, ranges::fraction}};
};

/// dlib::sgd: momentum with the rate inside the buffer.
///
///     v <- momentum * v - lr * (g + weight_decay * w)
///     w <- w + v
///
/// Slot m is dlib's v. The decay is the regularizer `l2`.
GRADSTEP_INLINE constexpr gradstep::momentum sgd(sgd_arguments with = {}) {
    return {.mu = with.momentum, .rate_place = learning_rate::inside};
}

/// The arguments of `adam`. dlib's epsilon is always 1e-8.
struct adam_arguments {
    double momentum1 = 0.9, momentum2 = 0.999;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"momentum1", &adam_arguments::momentum1, ranges::fraction},
                            hyperparameter{"momentum2", &adam_arguments::momentum2, ranges::fraction}};
};

/// dlib::adam: with the paper's epsilon-hat, and a weight decay that is added to the gradient
/// (`l2`).
///
///     w <- w - lr * sqrt(1 - momentum2^t) / (1 - momentum1^t) * m / (sqrt(v) + 1e-8)
GRADSTEP_INLINE constexpr gradstep::adam adam(adam_arguments with = {}) {
    return {.beta1 = with.momentum1, .beta2 = with.momentum2, .epsilon = 1e-8, .epsilon_place = epsilon::hat};
}

/// The presets of dlib: name -> function, used by the configuration.
inline constexpr preset_list<sgd, adam> presets{"dlib"};
} // namespace gradstep::dialects::dlib
