// expected-error: gradstep: exact catch-up: the state of this rule follows its weight
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::ftrl{}, gs::decoupled{0.1}, gs::constant{1e-3}), 10, 4, gs::exact{}};
