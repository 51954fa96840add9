// expected-error: gradstep: tables take no rule with a step of its own, which needs whole tensors
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::dgc_momentum{}, gs::constant{1});
gs::table const rows{optimizer, 10, 4, gs::touch_only{}};
