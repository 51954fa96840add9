// expected-error: gradstep: exact catch-up: with a coupled l2 the state of this rule grows without gradient
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::adagrad{}, gs::l2{0.1}, gs::constant{1e-3}), 10, 4, gs::exact{}};
