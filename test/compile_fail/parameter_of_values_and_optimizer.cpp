// expected-error: gradstep: parameter: the arguments are in another order; expected gs::parameter{optimizer, initial}
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void swapped(std::vector<float> const& initial) {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1});
    gs::parameter weights{initial, optimizer, {.on_nonfinite = gs::nonfinite::skip}};
}
