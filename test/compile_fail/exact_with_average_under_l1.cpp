// Elements that reach 0 at different steps have no sum in closed form.
// expected-error: gradstep: exact catch-up: the average of a row under l1 has no closed form
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void make() {
    auto const optimizer =
        gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{}}, gs::proximal{gs::l1{0.1}}, gs::constant{1e-3});
    gs::table const rows{optimizer, 10, 4, gs::exact{}};
}
