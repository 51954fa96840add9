#pragma once
// The steps of any_updater are defined in the .ipp of this name.
#include <gradstep/runtime/any_updater.hpp>
