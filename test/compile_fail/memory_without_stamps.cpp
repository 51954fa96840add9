// Adagrad has one slot, and exact a stamp for each row.
// expected-error: gradstep: row_updater::memory: the number of buffers is wrong; expected values, one buffer for each state slot of the rule
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void place(std::vector<float>& values, std::vector<float>& n) {
    gs::row_updater const rows{gs::make_updater<float>(gs::adagrad{}, gs::constant{1e-3}), 10, 4, gs::exact{}};
    rows.memory(values, n);
}
