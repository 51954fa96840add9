#pragma once
#include <variant>

#include <gradstep/averaging/ema.hpp>
#include <gradstep/averaging/lookahead.hpp>
#include <gradstep/averaging/polyak.hpp>
#include <gradstep/averaging/towards_initial.hpp>
#include <gradstep/averaging/window.hpp>
#include <gradstep/base/type_list.hpp>
#include <gradstep/clipping/clip_norm.hpp>
#include <gradstep/policy/catch_up.hpp>
#include <gradstep/regularizers/clip_value.hpp>
#include <gradstep/regularizers/none.hpp>
#include <gradstep/rules/all.hpp>

namespace gradstep {
// The policies of a configuration, as types. The other lists are in rules/all.hpp,
// regularizers/any_regularizer.hpp and configuration/catalogue.hpp (schedules). A configuration
// names a policy by its C++ name. A test compares the lists with the headers of the folders.

/// The averages of the weights that a configuration can name.
using averages = type_list<ema, lookahead, polyak, towards_initial, window>;
/// How rows catch up, in a configuration.
using catch_ups = type_list<touch_only, exact, replay>;
/// The clips that a configuration can name.
using clips = type_list<none, clip_value, clip_norm, clip_global_norm, clip_adaptive>;

/// One of the rules, as a std::variant: use `std::visit`.
using any_rule = rules::as<std::variant>;
static_assert(std::is_trivially_copyable_v<any_rule>, "copying code would cost every file that reads configurations");
/// One of `averages`, as a std::variant.
using any_average = averages::as<std::variant>;
/// One of `catch_ups`, as a std::variant.
using any_catch_up = catch_ups::as<std::variant>;
/// One of `clips`, as a std::variant.
using any_clip = clips::as<std::variant>;
} // namespace gradstep
