// A weight that momentum carries crosses 0.
// expected-error: gradstep: exact catch-up: a weight that momentum carries on crosses 0
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::nesterov{}, gs::proximal{gs::l1{0.1}}, gs::constant{1e-3}), 10, 4,
                     gs::exact{}};
