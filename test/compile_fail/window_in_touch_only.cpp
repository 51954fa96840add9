// A row that is away would not know which of the run's steps it missed.
// expected-error: gradstep: touch_only: an average that counts the steps of the run
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void make() {
    auto const optimizer =
        gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::window{.rate = 0.5}}, gs::constant{1e-3});
    gs::table const rows{optimizer, 10, 4};
}
