// expected-error: gradstep: parameter and state are written: they cannot be const
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void update(std::vector<float> const& w, std::vector<float>& g) {
    gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step()(w, g);
}
