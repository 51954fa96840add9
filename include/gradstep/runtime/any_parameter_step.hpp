#pragma once
// The steps of any_parameter are defined in the .ipp of this name.
#include <gradstep/runtime/any_parameter.hpp>
