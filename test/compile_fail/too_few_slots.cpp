// expected-error: gradstep: state: wrong number of state buffers; expected one for each state slot
// expected-error: adam has 2 state slots: m, v
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void too_few(std::vector<float>& w, std::vector<float>& g, std::vector<float>& m) {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1});
    optimizer.next_step()(w, g, m);
}
