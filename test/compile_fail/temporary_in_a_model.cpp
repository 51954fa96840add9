// The model would refer to memory that is gone.
// expected-error: gradstep: buffer: the memory of a temporary is gone after this call
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

std::vector<float> load();

void later(std::vector<float>& w, std::vector<float>& m) {
    auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{1});
    gs::model net;
    net.add("w", optimizer, {w, load(), m});
}
