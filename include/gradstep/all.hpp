#pragma once
/// Everything that needs no third-party header: elements, rules, averages, regularizers, schedules
/// and framework presets; updater, parameter, model and sparse tables; clipping; the serial
/// backend; a thread pool and executors on your application's pool. gradstep/gradstep.hpp adds the
/// simd backend, gradstep/thrust.hpp the Thrust backend.

#include <gradstep/version.hpp>

#include <gradstep/base/error.hpp>
#include <gradstep/number/element.hpp>

#include <gradstep/regularizers/all.hpp>
#include <gradstep/rules/all.hpp>
#include <gradstep/schedules/all.hpp>

#include <gradstep/averager.hpp>
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/averaging/ema.hpp>
#include <gradstep/averaging/lookahead.hpp>
#include <gradstep/averaging/polyak.hpp>
#include <gradstep/averaging/towards_initial.hpp>
#include <gradstep/averaging/window.hpp>

#include <gradstep/dialects/bert.hpp>
#include <gradstep/dialects/deepspeed.hpp>
#include <gradstep/dialects/dlib.hpp>
#include <gradstep/dialects/dynamicemb.hpp>
#include <gradstep/dialects/ensmallen.hpp>
#include <gradstep/dialects/fbgemm.hpp>
#include <gradstep/dialects/keras.hpp>
#include <gradstep/dialects/mlx.hpp>
#include <gradstep/dialects/optax.hpp>
#include <gradstep/dialects/paddle.hpp>
#include <gradstep/dialects/tensorflow.hpp>
#include <gradstep/dialects/timm.hpp>
#include <gradstep/dialects/torch.hpp>

#include <gradstep/backends/callback_executor.hpp>
#include <gradstep/backends/serial.hpp>
#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/clipping/agc.hpp>
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/compression/compressed_model.hpp>
#include <gradstep/compression/compressed_parameter.hpp>
#include <gradstep/compression/dgc_step.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/compression/top_k.hpp>
#include <gradstep/model.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/striped.hpp>
#include <gradstep/table.hpp>
#include <gradstep/updater.hpp>
