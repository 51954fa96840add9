// The master copy begins with the parameter.
// expected-error: gradstep: initialize_state: a slot of this updater begins with the parameter
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void begin(std::vector<float>& m, std::vector<float>& master) {
    gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, gs::constant{1}).initialize_state(m, master);
}
