// A difference of a rule whose step is the step of a whole model.
// expected-error: gradstep: step.difference: this rule reads the whole model or matrix before it writes
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void update(std::vector<float>& out, std::vector<float>& w, std::vector<float>& g, std::vector<float>& x0) {
    gs::make_updater<float>(gs::dog{}, gs::constant{1}).next_step().difference(out, w, g, x0);
}
