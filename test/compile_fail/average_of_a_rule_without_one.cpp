// A parameter whose rule keeps no average has none to show.
// expected-error: gradstep: average: the rule keeps no average; expected gs::averaged
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void show() {
    gs::parameter x{gs::make_updater<float>(gs::sgd{}, gs::constant{1e-3}), std::vector<float>(10)};
    static_cast<void>(x.apply_average());
}
