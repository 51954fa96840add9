#pragma once
/// Optimizers whose policies are chosen while the program runs: `any_updater`, `any_parameter`, which `gs::model` takes too, and
/// `update_all`. Needs nlohmann-json (gradstep::json), and the combinations of policies compiled: by linking gradstep::runtime, or
/// by files of the program (runtime/compile.hpp).
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/runtime/parameter_task.hpp>
#include <gradstep/runtime/state.hpp>
#include <gradstep/runtime/update_all.hpp>
