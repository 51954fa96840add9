// expected-error: gradstep: initial: its elements are of another type; expected a container or span of float, double or bfloat16
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1e-3});
gs::table const rows{optimizer, 1, 2, gs::touch_only{}, {.initial = std::vector<int>{1, 2}}};
