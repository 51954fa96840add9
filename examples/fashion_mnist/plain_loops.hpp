#pragma once

#include <memory>
#include <string_view>

#include "learner.hpp"

/// An optimizer as a program without gradstep has it: a loop over the elements of each tensor,
/// which is compiled with the same flags. Null if `name` is none of the six.
std::unique_ptr<learner> plain_loop(std::string_view name, network& net);
