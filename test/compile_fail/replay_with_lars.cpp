// expected-error: gradstep: replay: the rule does not say what its state does without gradient
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::lars{}, gs::constant{1e-3}), 10, 4, gs::replay{100}};
