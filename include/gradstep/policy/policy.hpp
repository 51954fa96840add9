#pragma once
// What rules, regularizers, schedules and averages are written with.
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/moments.hpp>
#include <gradstep/policy/zero_gradient.hpp>
