// expected-error: gradstep: exact catch-up: a weight that momentum carries on crosses 0, where l1 would stop it
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::momentum{}, gs::proximal{gs::l1{0.1}}, gs::constant{1e-3}), 10, 4,
                     gs::exact{}};
