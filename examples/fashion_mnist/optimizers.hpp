#pragma once

#include <string>
#include <vector>

#include "learner.hpp"

/// An optimizer by its name. Rules are types, so what the name leads to is code compiled for that type.
struct contender {
    std::string name;
    make_learner make;
};

/// All that the demo knows: every rule of gradstep, the ones that are compared by default first.
std::vector<contender> const& contenders();
/// How many of them are compared by default.
inline constexpr std::size_t default_contenders = 6;
