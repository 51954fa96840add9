// The master copy is a slot.
// expected-error: gradstep: state: wrong number of state buffers; expected one for each state slot
// expected-error: momentum has 2 state slots: m, mas
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void too_few(std::vector<gs::bfloat16>& w, std::vector<gs::bfloat16>& g, std::vector<float>& m) {
    auto optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, gs::constant{1});
    std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, m}};
}
