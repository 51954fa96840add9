// expected-error: gradstep: a table takes a catch-up policy: gs::touch_only{}, gs::exact{} or
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::sgd{}, gs::constant{1e-3}), 10, 4, gs::none{}};
