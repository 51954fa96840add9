// expected-error: gradstep: state: wrong number of state buffers; expected one for each state slot
// expected-error: adagrad has 1 state slot: n
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void too_few(std::vector<float>& w) { gs::make_updater<float>(gs::adagrad{}, gs::constant{1}).initialize(w); }
