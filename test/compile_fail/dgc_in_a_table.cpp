// expected-error: gradstep: table: the rule needs whole tensors, and a table updates single rows
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::dgc_momentum{}, gs::constant{1});
gs::table const rows{optimizer, 10, 4, gs::touch_only{}};
