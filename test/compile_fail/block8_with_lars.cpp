// expected-error: gradstep: block8 works block by block, and this rule looks at a whole tensor before it moves an element: use float
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<gs::block8<float>>(gs::lars{}, gs::constant{1});
