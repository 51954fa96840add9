#pragma once
#include <variant>

#include <gradstep/averaging/ema.hpp>
#include <gradstep/averaging/polyak.hpp>
#include <gradstep/averaging/window.hpp>
#include <gradstep/clipping/clip_norm.hpp>
#include <gradstep/core/type_list.hpp>
#include <gradstep/regularizers/clip_value.hpp>
#include <gradstep/regularizers/none.hpp>
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
#include <gradstep/sparse/catch_up.hpp>

namespace gradstep {

/// What a configuration may name: its rules, averages, catch-up policies and clips, as types. A configuration names a
/// policy by its C++ name. `any_regularizer` lists the regularizers, config/catalogue.hpp the schedules. A test compares the lists
/// with the headers of the folders.
using rules = type_list<adabelief, adadelta, adagrad, adam, adamax, add_delta, amsgrad, centered_momentum_rmsprop,
                        centered_rmsprop, constant_rate_ftrl, decayed_adagrad, dgc_momentum, ftrl, lamb, lars, lion,
                        momentum, momentum_rmsprop, nadam, nesterov, nesterov_adam, proximal_adagrad, radam, rmsprop,
                        rowwise_adagrad, rowwise_adam, sgd, two_buffer_adagrad, yogi>;
using averages = type_list<ema, polyak, window>;
using catch_ups = type_list<touch_only, exact, replay>;
using clips = type_list<none, clip_value, clip_norm, clip_global_norm>;
/// One of the policies above, as std::variant: `std::visit` calls a function with the one that it is.
using any_rule = rules::as<std::variant>;
using any_average = averages::as<std::variant>;
using any_catch_up = catch_ups::as<std::variant>;
using any_clip = clips::as<std::variant>;

} // namespace gradstep
