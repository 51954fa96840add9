// expected-error: gradstep: table: the rule keeps numbers of all steps, which an inactive row would miss, as schedule-free and model-wise rules do
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::prodigy{}, gs::constant{1});
gs::table rows{optimizer, 5, 4, gs::touch_only{}};
