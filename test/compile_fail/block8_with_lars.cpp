// expected-error: gradstep: block8: this rule reads a whole tensor before it updates an element; expected a rule that works block by block, or float
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<gs::block8<float>>(gs::lars{}, gs::constant{1});
