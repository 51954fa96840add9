#pragma once
// What rules, regularizers, schedules and averages are written with.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include <gradstep/core/clock.hpp>
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/epsilon.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/core/moments.hpp>
#include <gradstep/core/zero_gradient.hpp>
