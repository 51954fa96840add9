#pragma once
/// BERT's optimizer: Adam without bias correction, by the names of google-research/bert and of
/// pytorch-pretrained-bert; compared with pytorch-pretrained-bert 0.6.2, and with a loop after the
/// source of google-research/bert.
///
/// Some of their arguments are other policies here:
///
/// - `learning_rate` or `lr`, warm-up and decay are a schedule;
/// - `weight_decay_rate` or `weight_decay` is the regularizer `decoupled{...}`: 0.01 in BERT, and
///   no decay for bias and LayerNorm;
/// - BertAdam's `max_grad_norm`, 1 by default, is `clip_norm`: it clips the gradient of each tensor
///   alone. google-research/bert clips the norm of all gradients together (`clip_global_norm`).

#include <gradstep/base/compiler.hpp>
#include <gradstep/dialects/preset.hpp>
#include <gradstep/rules/adam.hpp>

namespace gradstep::dialects::bert {
struct adam_weight_decay_arguments {
    double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta_1", &adam_weight_decay_arguments::beta_1, ranges::fraction},
                            hyperparameter{"beta_2", &adam_weight_decay_arguments::beta_2, ranges::fraction},
                            hyperparameter{"epsilon", &adam_weight_decay_arguments::epsilon, ranges::non_negative}};
};

/// AdamWeightDecayOptimizer of google-research/bert: epsilon is outside the root.
///
///     w <- w - lr * m / (sqrt(v) + epsilon)
GRADSTEP_INLINE constexpr gradstep::adam adam_weight_decay(adam_weight_decay_arguments with = {}) {
    return {.beta1 = with.beta_1, .beta2 = with.beta_2, .epsilon = with.epsilon, .bias_correction = false};
}

struct bert_adam_arguments {
    double b1 = 0.9, b2 = 0.999, e = 1e-6;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"b1", &bert_adam_arguments::b1, ranges::fraction},
                            hyperparameter{"b2", &bert_adam_arguments::b2, ranges::fraction},
                            hyperparameter{"e", &bert_adam_arguments::e, ranges::non_negative}};
};

/// BertAdam of pytorch-pretrained-bert: the same numbers.
GRADSTEP_INLINE constexpr gradstep::adam bert_adam(bert_adam_arguments with = {}) {
    return adam_weight_decay({with.b1, with.b2, with.e});
}

/// The presets of BERT: name -> function, used by the configuration.
inline constexpr preset_list<adam_weight_decay, bert_adam> presets{"bert"};
} // namespace gradstep::dialects::bert
