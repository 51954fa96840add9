// A row that is away would miss that y goes to z, and which share a step has.
// expected-error: gradstep: table: the rule keeps numbers of all steps, which an inactive row would miss
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::schedule_free_adam{}, gs::constant{1});
gs::table const rows{optimizer, 10, 4, gs::touch_only{}};
