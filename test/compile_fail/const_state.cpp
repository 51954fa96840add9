// expected-error: gradstep: buffer: the parameter or a state buffer is const; expected writable memory
#include <gradstep/gradstep.hpp>

#include <span>
#include <vector>

namespace gs = gradstep;

void update(std::vector<float>& w, std::vector<float>& g, std::span<float const> m) {
    gs::make_updater<float>(gs::momentum{}, gs::constant{1}).next_step()(w, g, m);
}
