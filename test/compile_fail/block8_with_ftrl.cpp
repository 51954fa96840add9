// expected-error: gradstep: the rule does not say that 8 bits are enough for its state, as block8 keeps it
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<gs::block8<float>>(gs::ftrl{}, gs::constant{1});
