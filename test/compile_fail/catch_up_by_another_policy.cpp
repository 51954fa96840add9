// expected-error: gradstep: table: the argument is no catch-up policy; expected gs::touch_only{}, gs::exact{} or
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::sgd{}, gs::constant{1e-3}), 10, 4, gs::none{}};
