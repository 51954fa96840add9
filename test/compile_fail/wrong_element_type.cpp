// expected-error: gradstep: the element type of a buffer differs from what the updater's element stores there
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void update(std::vector<float>& w, std::vector<double>& g) {
    gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step()(w, g);
}
