#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "learner.hpp"

/// An optimizer by its name, with a peak of its learning rate that suits the demo.
struct contender {
    std::string name;
    double peak_rate;
    std::function<std::unique_ptr<learner>(std::span<network>, std::int64_t steps, double peak_rate)> make;
};

/// What the demo compares by default.
std::vector<contender> default_optimizers();
/// The other rules of gradstep that train all tensors by one schedule.
std::vector<contender> more_optimizers();
/// Rules with a recipe of their own: recipes/.
std::vector<contender> recipes();
/// Rules that gradstep does not have: your_rules.cpp.
std::vector<contender> your_rules();

/// How many of the contenders `compare` takes if it is not told: the first ones.
inline constexpr std::size_t default_contenders = 6;

/// The demo, given the arguments of main: compares some of these contenders.
int compare(int argc, char** argv, std::vector<contender> const& contenders);
