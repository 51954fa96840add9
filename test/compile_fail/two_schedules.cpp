// expected-error: gradstep: make_updater needs exactly one schedule
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1}, gs::external{});
