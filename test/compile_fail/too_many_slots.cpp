// expected-error: gradstep: state: wrong number of state buffers; expected one for each state slot
// expected-error: sgd has 0 state slots
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void too_many(std::vector<float>& w, std::vector<float>& g, std::vector<float>& m) {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    optimizer.next_step()(w, g, m);
}
