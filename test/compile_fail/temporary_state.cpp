// expected-error: gradstep: buffer: the memory of a temporary is gone after this call
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void thrown_away(std::vector<float>& w) {
    gs::make_updater<float>(gs::momentum{}, gs::constant{1}).initialize(w, std::vector<float>(w.size()));
}
