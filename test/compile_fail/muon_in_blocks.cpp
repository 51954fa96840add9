// expected-error: gradstep: block8: the rule does not say that 8 bits are enough for its state
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/muon.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<gs::block8<float>>(gs::muon{}, gs::constant{1});
