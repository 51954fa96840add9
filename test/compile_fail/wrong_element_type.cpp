// expected-error: gradstep: buffer: its element type is not the type that the updater stores there; expected the same type
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void update(std::vector<float>& w, std::vector<double>& g) {
    gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step()(w, g);
}
