#pragma once

#include <cstddef>
#include <vector>

#include "contender.hpp"

/// All optimizers of the demo: those that it compares by default, the other rules of gradstep, and
/// your rules.
std::vector<contender> const& contenders();
/// How many of them it compares by default.
inline constexpr std::size_t default_contenders = 6;

/// Rules with a recipe of their own: recipes/.
std::vector<contender> recipes();
/// Rules that gradstep does not have: your_rules.cpp.
std::vector<contender> your_rules();
