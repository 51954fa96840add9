// expected-error: gradstep: the sum of a row over the steps that it missed has no closed form under l1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void sum(std::vector<float>& out) {
    gs::table const rows{gs::make_updater<float>(gs::sgd{}, gs::proximal{gs::l1{0.1}}, gs::constant{1e-3}), 10, 4,
                         gs::exact{}};
    rows.missed_sum(3, out);
}
