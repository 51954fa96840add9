// A parameter whose rule keeps no average has none to show.
// expected-error: gradstep: the rule keeps no average: put it into gs::averaged
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void show() {
    gs::parameter x{gs::make_updater<float>(gs::sgd{}, gs::constant{1e-3}), std::vector<float>(10)};
    static_cast<void>(x.apply_average());
}
