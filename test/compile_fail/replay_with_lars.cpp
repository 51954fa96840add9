// expected-error: gradstep: replay needs to know what the state of a rule does without gradient
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::lars{}, gs::constant{1e-3}), 10, 4, gs::replay{100}};
