// expected-error: gradstep: buffer: the type is not known as contiguous memory; expected std::vector, std::array, std::span, or a type with
#include <gradstep/gradstep.hpp>

#include <list>
#include <vector>

namespace gs = gradstep;

void update(std::vector<float>& w, std::list<float>& g) {
    gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step()(w, g);
}
