// expected-error: gradstep: buffer: the parameter or a state buffer is const; expected writable memory
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void update(std::vector<float> const& w, std::vector<float>& g) {
    gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step()(w, g);
}
