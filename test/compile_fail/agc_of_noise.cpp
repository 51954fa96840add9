// expected-error: gradstep: agc: the rule adds noise, and a row-wise rule gets none
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto make() { return gs::make_updater<float>(gs::agc{gs::sgld{}}, gs::constant{1e-3}); }
