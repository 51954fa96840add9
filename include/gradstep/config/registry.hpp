#pragma once
#include <variant>

#include <gradstep/all.hpp>
#include <gradstep/clipping/clip_norm.hpp>
#include <gradstep/core/type_list.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

namespace gradstep {

/// What a configuration may name: its rules, averages, catch-up policies and clips, as types; the names are those of the types. The
/// regularizers are those of `any_regularizer`, the schedules in config/catalogue.hpp. A policy that is not here is not found by
/// name; a test compares the lists with the folders.
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
