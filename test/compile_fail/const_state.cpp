// expected-error: gradstep: parameter and state are written: they cannot be const
#include <gradstep/gradstep.hpp>

#include <span>
#include <vector>

namespace gs = gradstep;

void update(std::vector<float>& w, std::vector<float>& g, std::span<float const> m) {
    gs::make_updater<float>(gs::momentum{}, gs::constant{1}).next_step()(w, g, m);
}
