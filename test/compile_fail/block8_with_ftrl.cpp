// expected-error: gradstep: block8: the rule does not say that 8 bits are enough for its state; expected `static constexpr
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<gs::block8<float>>(gs::ftrl{}, gs::constant{1});
