#pragma once
/// Everything that needs no third-party header: elements, rules, averages, regularizers, schedules and dialects; the updater,
/// parameter, model and sparse tables that are made of them; clipping; the serial backend, and executors on a pool of its own or of
/// the host. gradstep/gradstep.hpp adds the simd backend, gradstep/thrust.hpp the Thrust backend.

#include <gradstep/version.hpp>

#include <gradstep/core/element.hpp>
#include <gradstep/core/error.hpp>

#include <gradstep/rules/adabelief.hpp>
#include <gradstep/rules/adadelta.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/adamax.hpp>
#include <gradstep/rules/add_delta.hpp>
#include <gradstep/rules/amsgrad.hpp>
#include <gradstep/rules/centered_momentum_rmsprop.hpp>
#include <gradstep/rules/centered_rmsprop.hpp>
#include <gradstep/rules/constant_rate_ftrl.hpp>
#include <gradstep/rules/decayed_adagrad.hpp>
#include <gradstep/rules/dgc_momentum.hpp>
#include <gradstep/rules/ftrl.hpp>
#include <gradstep/rules/lamb.hpp>
#include <gradstep/rules/lars.hpp>
#include <gradstep/rules/lion.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/momentum_rmsprop.hpp>
#include <gradstep/rules/nadam.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/nesterov_adam.hpp>
#include <gradstep/rules/proximal_adagrad.hpp>
#include <gradstep/rules/radam.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/rowwise_adagrad.hpp>
#include <gradstep/rules/rowwise_adam.hpp>
#include <gradstep/rules/sgd.hpp>
#include <gradstep/rules/two_buffer_adagrad.hpp>
#include <gradstep/rules/yogi.hpp>

#include <gradstep/regularizers/after_step.hpp>
#include <gradstep/regularizers/all_of.hpp>
#include <gradstep/regularizers/clip_value.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/regularizers/elastic_net.hpp>
#include <gradstep/regularizers/l1.hpp>
#include <gradstep/regularizers/l2.hpp>
#include <gradstep/regularizers/none.hpp>
#include <gradstep/regularizers/proximal.hpp>
#include <gradstep/regularizers/zero_nonfinite.hpp>

#include <gradstep/schedules/by_epochs.hpp>
#include <gradstep/schedules/by_samples.hpp>
#include <gradstep/schedules/chain.hpp>
#include <gradstep/schedules/clamped.hpp>
#include <gradstep/schedules/constant.hpp>
#include <gradstep/schedules/cosine.hpp>
#include <gradstep/schedules/cosine_restarts.hpp>
#include <gradstep/schedules/cyclic.hpp>
#include <gradstep/schedules/exponential.hpp>
#include <gradstep/schedules/external.hpp>
#include <gradstep/schedules/inverse_time.hpp>
#include <gradstep/schedules/linear.hpp>
#include <gradstep/schedules/natural_exp.hpp>
#include <gradstep/schedules/noam.hpp>
#include <gradstep/schedules/one_cycle.hpp>
#include <gradstep/schedules/piecewise.hpp>
#include <gradstep/schedules/poly.hpp>
#include <gradstep/schedules/polynomial.hpp>
#include <gradstep/schedules/scaled.hpp>
#include <gradstep/schedules/warmup.hpp>
#include <gradstep/schedules/warmup_stable_decay.hpp>

#include <gradstep/averager.hpp>
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/averaging/ema.hpp>
#include <gradstep/averaging/polyak.hpp>
#include <gradstep/averaging/window.hpp>

#include <gradstep/dialects/keras.hpp>
#include <gradstep/dialects/optax.hpp>
#include <gradstep/dialects/paddle.hpp>
#include <gradstep/dialects/tensorflow.hpp>
#include <gradstep/dialects/torch.hpp>

#include <gradstep/backends/callback_executor.hpp>
#include <gradstep/backends/serial.hpp>
#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/compression/dgc_step.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/compression/top_k.hpp>
#include <gradstep/model.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/striped.hpp>
#include <gradstep/table.hpp>
#include <gradstep/updater.hpp>
