#pragma once
/// What most programs use, and what needs no third-party header: elements, rules, averages,
/// regularizers and schedules; updater, parameter, model and sparse tables; clipping; the serial
/// backend; a thread pool and executors on your application's pool. gradstep/gradstep.hpp adds the
/// simd backend, gradstep/thrust.hpp the Thrust backend. It leaves out presets of other frameworks
/// (gradstep/dialects.hpp), compressed gradients (gradstep/compression.hpp) and tables for several
/// threads (gradstep/striped.hpp). Include their headers yourself.

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

#include <gradstep/backends/callback_executor.hpp>
#include <gradstep/backends/serial.hpp>
#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/clipping/agc.hpp>
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/model.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/table.hpp>
#include <gradstep/updater.hpp>
