#pragma once
/// Optimizers with policies chosen at run time: `any_updater`, `any_parameter` (which `gs::model`
/// supports too), `update_all`, and tables, `any_table`. Needs nlohmann-json (gradstep::json), and
/// compiled combinations of policies: link gradstep::runtime, or add files to your program
/// (runtime/compile.hpp).
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/any_table.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/detail/any_messages.hpp>
#include <gradstep/runtime/detail/state.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
