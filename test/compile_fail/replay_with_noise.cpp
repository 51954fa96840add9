// The noise of pending steps would need every one of them.
// expected-error: gradstep: table: the rule adds noise to every row in every step
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void make() { gs::table const rows{gs::make_updater<float>(gs::sgld{}, gs::constant{1e-3}), 10, 4, gs::replay{100}}; }
