// expected-error: gradstep: averaged does not go around dgc_momentum, whose steps touch few elements
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::averaged{gs::dgc_momentum{}, gs::ema{}}, gs::constant{1});
