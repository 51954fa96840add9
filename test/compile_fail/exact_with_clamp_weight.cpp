// expected-error: gradstep: exact catch-up: clamping a weight, and a cautious decay beside another decay, have no closed form
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::momentum{},
                                             gs::all_of{gs::decoupled{0.1}, gs::clamp_weight{-1.0, 1.0}},
                                             gs::constant{1e-3}),
                     10, 4, gs::exact{}};
