// expected-error: gradstep: exact catch-up: this rule scales by the norms of a row
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::lamb{}, gs::constant{1e-3}), 10, 4, gs::exact{}};
