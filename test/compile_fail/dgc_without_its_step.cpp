// expected-error: gradstep: make_updater: the step of dgc_momentum is not included; expected an include of <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::dgc_momentum{}, gs::constant{0.1});
