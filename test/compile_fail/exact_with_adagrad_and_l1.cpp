// A coupled l1 crosses 0.
// expected-error: gradstep: exact catch-up: this regularizer has no closed form without gradient
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::adagrad{}, gs::l1{0.1}, gs::constant{1e-3}), 10, 4, gs::exact{}};
