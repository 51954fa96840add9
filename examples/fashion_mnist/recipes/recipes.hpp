#pragma once

#include <cstdint>

#include "../learner_of_model.hpp"

/// Optimizers that need more than a rule and a rate: which tensors they train, by which schedule,
/// and which weights are judged. Each file has one, as its authors recommend it, and recipes.cpp
/// has their names and rates.
namespace recipe {

constexpr double weight_decay = 0.05; // as adamw in optimizers.cpp

/// Gives the tensors of a network their optimizers, for a training of so many steps.
using function = void(learner_of_model& net, double peak_rate, std::int64_t steps);

function adafactor, averaged_adam, muon, prodigy, schedule_free;

} // namespace recipe
