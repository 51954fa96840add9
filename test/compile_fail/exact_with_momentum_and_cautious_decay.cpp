// expected-error: gradstep: exact catch-up: momentum moves a weight without gradient, and cautious_decay depends on the direction
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::momentum{}, gs::cautious_decay{0.1}, gs::constant{1e-3}), 10, 4,
                     gs::exact{}};
