// expected-error: gradstep: exact catch-up: a step of this rule without gradient moves the weight and has no
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::adam{}, gs::constant{1e-3}), 10, 4, gs::exact{}};
