// The pull is linear until it is clipped, in a nested list too.
// expected-error: gradstep: exact catch-up: this regularizer has no closed form without gradient
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::momentum{},
                                             gs::all_of{gs::l2{0.1}, gs::all_of{gs::clip_value{1}, gs::decoupled{0.1}}},
                                             gs::constant{1e-3}),
                     10, 4, gs::exact{}};
