// The step would be thrown away with the parameter. The gradient may be a temporary: it is read before it is gone.
// expected-error: gradstep: buffer: the memory of a temporary is gone after this call
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <array>
#include <vector>

namespace gs = gradstep;

std::vector<float> load();

void thrown_away(std::vector<float>& w) {
    auto step = gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step();
    step(w, load());
    step(std::array<float, 3>{1, 2, 3}, w);
}
