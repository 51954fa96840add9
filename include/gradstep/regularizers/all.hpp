#pragma once
/// All regularizers. `./dev generate` writes this header from the names of the files beside it.

#include <gradstep/regularizers/after_step.hpp>
#include <gradstep/regularizers/all_of.hpp>
#include <gradstep/regularizers/cautious_decay.hpp>
#include <gradstep/regularizers/clamp_weight.hpp>
#include <gradstep/regularizers/clip_value.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/regularizers/elastic_net.hpp>
#include <gradstep/regularizers/l1.hpp>
#include <gradstep/regularizers/l2.hpp>
#include <gradstep/regularizers/none.hpp>
#include <gradstep/regularizers/proximal.hpp>
#include <gradstep/regularizers/zero_nonfinite.hpp>
